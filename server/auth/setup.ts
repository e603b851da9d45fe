/** The first administrator: from ADMIN_EMAIL and ADMIN_PASSWORD, or of whoever opens the set-up address that the start prints. */
import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { type Actor, systemActor } from '../audit/actor.ts';
import { record } from '../audit/record.ts';
import type { Database } from '../db/pool.ts';
import type { UserRow } from '../db/queries/people.ts';
import { countAdministrators, findUser, insertUser, lockAdministrators } from '../db/queries/users.ts';
import type { Exchange } from '../http/exchange.ts';
import { Passwords } from '../passwords/hash.ts';
import type { Settings } from '../settings/read.ts';
import { visitor } from './person.ts';
import { type SignedIn, type SignInParts, startSession } from './sign-in.ts';

type Query = Database['query'];

/** The page where the first administrator is made, with its token; null once there is an administrator. */
export async function setupAddress(database: Database, key: Buffer, publicUrl: string): Promise<string | null> {
  if ((await countAdministrators(database)) > 0) return null;
  return `${publicUrl}/setup?token=${await setupToken(database, key)}`;
}

/** The same at every process and start over this database, and at no other: nothing has to be kept. */
async function setupToken(database: Database, key: Buffer): Promise<string> {
  const [row] = await database.query<{ madeAt: string }>({
    text: `select extract(epoch from min(applied_at))::text as "madeAt" from schema_migrations`,
  });
  return createHmac('sha256', key).update(row!.madeAt).digest('base64url');
}

interface FirstAdministrator {
  email: string;
  name: string;
  password: string;
}

/** `closed`: there is an administrator; `refused`: the token is another one. */
type SetUpOutcome = SignedIn | { kind: 'closed' | 'refused' | 'email_taken' | 'busy' };

/** Makes the first administrator and signs in. Of two at once one wins, and the other finds it closed. */
export async function setUp(
  { database, passwords, publicUrl, key }: SignInParts & { key: Buffer },
  exchange: Exchange,
  { token, ...given }: FirstAdministrator & { token: string },
): Promise<SetUpOutcome> {
  if ((await countAdministrators(database)) > 0) return { kind: 'closed' };
  if (!sameText(token, await setupToken(database, key))) return { kind: 'refused' };
  const outcome = await passwords.admit(async (hasher): Promise<SetUpOutcome> => {
    const passwordHash = await hasher.hash(given.password);
    return database.transaction<SetUpOutcome>(async (query) => {
      const made = await makeFirstAdministrator(query, visitor(exchange), given, passwordHash);
      return typeof made === 'string' ? { kind: made } : startSession(query, exchange, made, publicUrl);
    });
  });
  return outcome ?? { kind: 'busy' };
}

/**
 * At the start, in local mode: makes the administrator that the settings name when there is none. Never changes one. Throws
 * when somebody who is no administrator has its email.
 */
export async function ensureAdministrator(database: Database, settings: Settings): Promise<void> {
  const { ADMIN_EMAIL: email, ADMIN_PASSWORD: password } = settings;
  if (email === undefined || password === undefined || (await countAdministrators(database)) > 0) return;
  const passwordHash = (await new Passwords().admit((hasher) => hasher.hash(password)))!;
  const made = await database.transaction((query) =>
    makeFirstAdministrator(query, systemActor, { email: email.toLowerCase(), name: '' }, passwordHash),
  );
  if (made === 'email_taken')
    throw new Error(
      `ADMIN_EMAIL is the address of a user who is no administrator; make it one with: weir user set-role ${email} administrator`,
    );
}

async function makeFirstAdministrator(
  query: Query,
  actor: Actor,
  { email, name }: Omit<FirstAdministrator, 'password'>,
  passwordHash: string,
): Promise<UserRow | 'closed' | 'email_taken'> {
  if ((await lockAdministrators(query)) > 0) return 'closed';
  const user = { id: randomUUID(), email, name, role: 'administrator' } as const;
  if (!(await insertUser(query, { ...user, passwordHash }))) return 'email_taken';
  const after = (await findUser({ query }, { id: user.id }))!;
  await record(query, actor, { action: 'user.create', target: { kind: 'user', id: user.id, name: email }, after });
  return user;
}

function sameText(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
