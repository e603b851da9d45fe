/**
 * The first administrator: from ADMIN_EMAIL and ADMIN_PASSWORD, or the first person to open the setup URL printed at startup.
 */
import { createHmac, randomUUID } from 'node:crypto';
import { weirCommand } from '../../base/command/name.ts';
import type { Exchange } from '../../base/http/exchange.ts';
import { problem, problemLater, type Result } from '../../base/http/problem.ts';
import type { Settings } from '../../base/settings/read.ts';
import { OperatorError } from '../../model/fault.ts';
import { type Actor, record, systemActor } from '../../store/audit/record.ts';
import type { Database, Query } from '../../store/connect/pool.ts';
import { readFirstMigration } from '../../store/queries/server-state.ts';
import {
  type ActiveUser,
  countAdministrators,
  findUser,
  insertUser,
  lockAdministrators,
} from '../../store/queries/users/users.ts';
import { sameText } from './csrf.ts';
import { Passwords } from './password-hash.ts';
import { visitorActor } from './person.ts';
import { type SignedIn, type SignInParts, startSession } from './sign-in.ts';

/** Returns the URL of the page that creates the first administrator, with its token; null if an administrator exists. */
export async function setupAddress(database: Database, key: Buffer, publicUrl: string): Promise<string | null> {
  if ((await countAdministrators(database)) > 0) return null;
  return `${publicUrl}/setup?token=${await setupToken(database, key)}`;
}

/**
 * Derives the token from the time of the first migration: it is the same in every process and after every restart on this database, and
 * different on any other. Nothing is stored.
 */
async function setupToken(database: Database, key: Buffer): Promise<string> {
  return createHmac('sha256', key)
    .update(await readFirstMigration(database))
    .digest('base64url');
}

interface FirstAdministrator {
  email: string;
  name: string;
  password: string;
}

/** Creates the first administrator and signs in. Of two concurrent calls one succeeds; the other returns `setup_closed`. */
export async function setUp(
  { database, passwords, publicUrl, key }: SignInParts & { key: Buffer },
  exchange: Exchange,
  { token, ...given }: FirstAdministrator & { token: string },
): Promise<Result<SignedIn>> {
  if ((await countAdministrators(database)) > 0) return problem('setup_closed');
  if (!sameText(token, await setupToken(database, key))) return problem('setup_refused');
  const outcome = await passwords.admit(async (hasher): Promise<Result<SignedIn>> => {
    const passwordHash = await hasher.hash(given.password);
    return database.transaction<Result<SignedIn>>(async (query) => {
      const created = await createFirstAdministrator(query, visitorActor(exchange), given, passwordHash);
      if (typeof created === 'string') return problem(created);
      return { kind: 'done', value: await startSession(query, exchange, created, publicUrl) };
    });
  });
  return outcome ?? problemLater('sign_in_busy', 1);
}

/**
 * Creates the administrator named in the settings if none exists. Runs at startup in local mode. Never changes an existing user.
 * Throws OperatorError when a user of another role has this email.
 */
export async function ensureAdministrator(database: Database, settings: Settings): Promise<void> {
  const { ADMIN_EMAIL: email, ADMIN_PASSWORD: password } = settings;
  if (email === undefined || password === undefined || (await countAdministrators(database)) > 0) return;
  const passwordHash = (await new Passwords().admit((hasher) => hasher.hash(password)))!;
  const created = await database.transaction((query) =>
    createFirstAdministrator(query, systemActor, { email: email.toLowerCase(), name: '' }, passwordHash),
  );
  if (created === 'email_taken')
    throw new OperatorError(
      'ADMIN_EMAIL is the address of a user who is not an administrator',
      `assign the role with: ${weirCommand()} user set-role ${email} administrator`,
    );
}

async function createFirstAdministrator(
  query: Query,
  actor: Actor,
  { email, name }: Omit<FirstAdministrator, 'password'>,
  passwordHash: string,
): Promise<ActiveUser | 'setup_closed' | 'email_taken'> {
  if ((await lockAdministrators(query)) > 0) return 'setup_closed';
  const user = { id: randomUUID(), email, name, role: 'administrator' } as const;
  if (!(await insertUser(query, { ...user, passwordHash }))) return 'email_taken';
  const after = (await findUser({ query }, { id: user.id }))!;
  await record(query, actor, { action: 'user.create', target: { kind: 'user', id: user.id, name: email }, after });
  return user;
}
