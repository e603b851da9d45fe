import { type Command, InvalidArgumentError, Option } from 'commander';
import { z } from 'zod';
import { checked } from '../api/input.ts';
import { EXPIRY_DAYS, EXPIRY_DAYS_MAX, inDays, Tokens } from '../api/tokens/service.ts';
import { commandActor } from '../audit/actor.ts';
import { findTokenOwner } from '../db/queries/tokens.ts';
import { weirCommand } from '../files/command.ts';
import { nameText } from '../resources/fields.ts';
import { allows, type Role, roles } from '../resources/users.ts';
import { uuid } from './arguments.ts';
import { CommandError, type CommandIo, printJson, printText, table } from './io.ts';
import { withDatabase, withInput } from './session.ts';

interface Output {
  json?: boolean;
}

interface AddOptions extends Output {
  email: string;
  name: string;
  role?: Role;
  expiresDays: number | 'never';
}

/** `weir token add|list|revoke`. */
export function defineToken(command: Command, io: CommandIo): void {
  command
    .command('add')
    .description('create a token and print it, once')
    .requiredOption('--email <email>', 'user that owns it', checkEmail)
    .requiredOption('--name <name>', 'what it is for')
    .addOption(new Option('--role <role>', "at most the user's role; default: the user's role").choices(roles))
    .option('--expires-days <days|never>', 'validity', expiryDays, EXPIRY_DAYS)
    .option('--json', 'print one JSON document')
    .action((options: AddOptions) =>
      withDatabase(io, async ({ database }) => {
        const { email, expiresDays } = options;
        const { name } = await withInput(async () => checked(z.object({ name: nameText }), options));
        const owner = await findTokenOwner(database, email);
        if (owner === undefined) throw noUser(email);
        const role = options.role ?? owner.role;
        if (!allows(owner.role, role))
          throw new CommandError(`the role of ${email} is ${owner.role}: a token cannot have a higher one`, 2);
        const expiresAt = expiresDays === 'never' ? null : inDays(expiresDays);
        const made = await new Tokens(database, commandActor()).add({ userId: owner.id, name, role, expiresAt });
        if (made.kind === 'too_many')
          throw new CommandError(`${email} has the maximum number of active tokens; revoke some: weir token list`);
        if (made.kind !== 'made') throw noUser(email);
        const { token, text } = made;
        if (options.json)
          return printJson(io, { id: token.id, token: text, role: token.role, expires_at: token.expires_at });
        printText(
          io,
          `Token ${token.name} created for ${token.user_email}.\n  ID       ${token.id}\n  Role     ${token.role}\n` +
            `  Expires  ${token.expires_at ?? 'never'}\n  Token    ${text}   (shown once)\n`,
        );
      }),
    );

  command
    .command('list')
    .description('show all tokens, newest first')
    .option('--email <email>', 'of this user', checkEmail)
    .option('--json', 'print one JSON document')
    .action(({ email, json }: Output & { email?: string }) =>
      withDatabase(io, async ({ database }) => {
        const owner = email === undefined ? null : await findTokenOwner(database, email);
        if (owner === undefined) throw noUser(email!);
        const rows = await new Tokens(database, commandActor()).list(owner?.id ?? null, null, TOKENS_LISTED_MAX);
        if (json) return printJson(io, { items: rows });
        if (rows.length === 0)
          printText(io, `No tokens yet. Create one: ${weirCommand()} token add --email E --name ci\n`);
        else
          printText(
            io,
            table(
              ['ID', 'USER', 'NAME', 'ROLE', 'STATE', 'EXPIRES', 'LAST USED'],
              rows.map((row) => [
                row.id,
                row.user_email,
                row.name,
                row.role,
                row.state,
                row.expires_at ?? 'never',
                row.last_used_at ?? 'never',
              ]),
            ),
          );
      }),
    );

  command
    .command('revoke')
    .description('revoke a token permanently, and the tokens created with it')
    .argument('<id>', 'id of the token', uuid)
    .option('--json', 'print one JSON document')
    .action((id: string, { json }: Output) =>
      withDatabase(io, async ({ database }) => {
        if ((await new Tokens(database, commandActor()).revoke(id, null)) !== 'revoked')
          throw new CommandError(`no active token has the id ${id}; see: weir token list`);
        if (json) return printJson(io, { id, done: 'revoke' });
        printText(io, `${id}: revoked.\n`);
      }),
    );
}

/** More rows than a person reads; the API is paginated. */
const TOKENS_LISTED_MAX = 10_000;

function expiryDays(text: string): number | 'never' {
  if (text === 'never') return text;
  const days = /^[1-9]\d{0,3}$/.test(text) ? Number(text) : Number.NaN;
  if (!(days <= EXPIRY_DAYS_MAX))
    throw new InvalidArgumentError(`a whole number of days from 1 to ${EXPIRY_DAYS_MAX} is needed, or never.`);
  return days;
}

function checkEmail(text: string): string {
  if (!/^[^\s@]+@[^\s@]+$/.test(text)) throw new InvalidArgumentError('an email address is needed.');
  return text;
}

function noUser(email: string): CommandError {
  return new CommandError(`no active user has the email ${email}; see: weir user list`);
}
