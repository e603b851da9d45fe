import { type Command, Option } from 'commander';
import { z } from 'zod';
import { checked, InputError } from '../api/input.ts';
import { type UserOutcome, Users } from '../api/users/service.ts';
import { commandActor } from '../audit/actor.ts';
import { isUuid } from '../db/ids.ts';
import type { UserRecord } from '../db/queries/users.ts';
import { weirCommand } from '../files/command.ts';
import { generatePassword, Passwords } from '../passwords/hash.ts';
import { passwordProblem } from '../passwords/rules.ts';
import { emailText, optionalNameText } from '../resources/fields.ts';
import { type Role, roles } from '../resources/users.ts';
import { CommandError, type CommandIo, printJson, printText, table } from './io.ts';
import { withDatabase } from './session.ts';

interface AddOptions {
  email: string;
  role: Role;
  name: string;
  passwordStdin?: boolean;
  json?: boolean;
}

interface PasswordOptions {
  passwordStdin?: boolean;
  revokeTokens: boolean;
  json?: boolean;
}

/** `weir user add|list|set-role|disable|enable|password|remove`. */
export function defineUser(command: Command, io: CommandIo): void {
  command
    .command('add')
    .description('create a user; without --password-stdin a password is generated and printed, once')
    .requiredOption('--email <email>', 'email address for sign-in')
    .addOption(new Option('--role <role>', 'role of the user').choices(roles).makeOptionMandatory())
    .option('--name <name>', 'display name', '')
    .option('--password-stdin', 'read the password from standard input')
    .option('--json', 'print one JSON document')
    .action((options: AddOptions) => withUsers(io, (users, hosted) => add(io, users, hosted, options)));

  command
    .command('list')
    .description('show all users')
    .option('--json', 'print one JSON document')
    .action(({ json }: { json?: boolean }) => withUsers(io, (users) => list(io, users, json)));

  command
    .command('password')
    .description('set a new password, end all sessions and reset the sign-in throttle')
    .argument('<user>', 'email or id')
    .option(
      '--password-stdin',
      'read the password from standard input; without this option it is generated and printed, once',
    )
    .option('--revoke-tokens', 'revoke its API tokens too (the default)', true)
    .option('--no-revoke-tokens', 'keep its API tokens')
    .option('--json', 'print one JSON document')
    .action((key: string, options: PasswordOptions) =>
      withUsers(io, (users, hosted) => setPassword(io, users, hosted, key, options)),
    );

  command
    .command('set-role')
    .description('change the role of a user, from the next request on')
    .argument('<user>', 'email or id')
    .addArgument(command.createArgument('<role>', 'the new role').choices(roles))
    .option('--json', 'print one JSON document')
    .action((key: string, role: Role, { json }: { json?: boolean }) =>
      withUsers(io, async (users, hosted) => {
        const { id, email } = await known(users, key);
        done(await users.update(id, { role }));
        const until = hosted ? ' until the next sign-in, when the identity provider sets the role again' : '';
        if (json) printJson(io, { id, email, role });
        else printText(io, `${email}: ${role}${until}.\n`);
      }),
    );

  for (const [name, description, result, change] of [
    [
      'disable',
      'end all sessions and refuse the tokens of a user',
      'disabled',
      (users, id) => users.update(id, { disabled: true }),
    ],
    ['enable', 'allow a user to sign in again', 'enabled', (users, id) => users.update(id, { disabled: false })],
    ['remove', 'delete a user with all sessions and tokens', 'removed', (users, id) => users.remove(id)],
  ] satisfies [string, string, string, (users: Users, id: string) => Promise<UserOutcome<unknown>>][])
    command
      .command(name)
      .description(description)
      .argument('<user>', 'email or id')
      .option('--json', 'print one JSON document')
      .action((key: string, { json }: { json?: boolean }) =>
        withUsers(io, async (users) => {
          const { id, email } = await known(users, key);
          done(await change(users, id));
          if (json) printJson(io, { id, done: name });
          else printText(io, `${email}: ${result}.\n`);
        }),
      );
}

async function add(io: CommandIo, users: Users, hosted: boolean, options: AddOptions): Promise<void> {
  const { email, name } = checked(nameable, { email: options.email, name: options.name });
  if (hosted && options.passwordStdin) throw new CommandError(NO_PASSWORDS, 2);
  const given = options.passwordStdin ? await readPassword(io, email) : null;
  const password = given ?? (hosted ? null : 'generate');
  const { user, generated } = done(await users.create({ email, name, role: options.role, password }));
  if (options.json) return printJson(io, { ...user, ...(generated === null ? {} : { password: generated }) });
  printText(io, `User ${user.email} created with role ${user.role}.\n  ID        ${user.id}\n`);
  if (generated !== null) printText(io, `  Password  ${generated}   (shown once)\n`);
}

async function setPassword(
  io: CommandIo,
  users: Users,
  hosted: boolean,
  key: string,
  { passwordStdin, revokeTokens, json }: PasswordOptions,
): Promise<void> {
  if (hosted) throw new CommandError(NO_PASSWORDS, 2);
  const { id, email } = await known(users, key);
  const given = passwordStdin ? await readPassword(io, email) : null;
  const password = given ?? generatePassword();
  const { revokedTokens } = done(await users.update(id, { password, revokeTokens }));
  const shown = { ...(given === null ? { password } : {}), ...(revokeTokens ? { revoked_tokens: revokedTokens } : {}) };
  if (json) return printJson(io, { id, email, ...shown });
  printText(io, `${email}: password changed, and all sessions ended.\n`);
  if (revokeTokens) printText(io, `  API tokens revoked: ${revokedTokens}\n`);
  if (given === null) printText(io, `  Password  ${password}   (shown once)\n`);
}

async function list(io: CommandIo, users: Users, json?: boolean): Promise<void> {
  const rows: UserRecord[] = [];
  for (;;) {
    const page = await users.list({ contains: null, role: null }, rows.at(-1)?.email ?? null, PAGE_ROWS);
    rows.push(...page);
    if (page.length < PAGE_ROWS) break;
  }
  if (json) return printJson(io, { items: rows });
  if (rows.length === 0)
    return void printText(
      io,
      `No users yet. Create one: ${weirCommand()} user add --email ada@example.org --role administrator\n`,
    );
  printText(
    io,
    table(
      ['ID', 'EMAIL', 'ROLE', 'STATE', 'LAST SIGN-IN'],
      rows.map((row) => [
        row.id,
        row.email,
        row.role,
        row.disabled ? 'disabled' : 'active',
        row.signed_in_at ?? 'never',
      ]),
    ),
  );
}

const nameable = z.object({ email: emailText, name: optionalNameText });
const PAGE_ROWS = 1_000;
const NO_PASSWORDS = 'AUTH_MODE is hosted: users sign in at the OpenID Connect provider, and Weir stores no passwords';

function withUsers(io: CommandIo, work: (users: Users, hosted: boolean) => Promise<void>): Promise<void> {
  return withDatabase(io, async ({ database, settings }) => {
    try {
      await work(new Users({ database, passwords: new Passwords() }, commandActor()), settings.AUTH_MODE === 'hosted');
    } catch (error) {
      if (error instanceof InputError) throw new CommandError(error.message, 2);
      throw error;
    }
  });
}

/** Finds a user by id or email. Throws CommandError. */
async function known(users: Users, key: string): Promise<UserRecord> {
  const user = await users.find(isUuid(key) ? { id: key.toLowerCase() } : { email: key });
  if (user === undefined) throw new CommandError(`no user has the id or email ${key}; see: weir user list`);
  return user;
}

function done<T>(outcome: UserOutcome<T>): T {
  if (outcome.kind === 'done') return outcome.value;
  throw new CommandError(refusals[outcome.kind]);
}

const refusals = {
  unknown: 'the user was deleted by another command or user',
  stale: 'the user was changed by another command or user; run the command again',
  email_taken: 'another user has this email address; see: weir user list',
  last_administrator: 'this is the last active administrator: make another user an administrator first',
  busy: 'too many passwords are being checked; try again',
} as const;

async function readPassword(io: CommandIo, email: string): Promise<string> {
  let text = '';
  for await (const chunk of io.stdin) text += chunk;
  const password = text.replace(/\r?\n$/, '');
  const problem = passwordProblem(password, email);
  if (problem !== null) throw new CommandError(`The password is not allowed. ${problem}`, 2);
  return password;
}
