/** API tokens of users. */
import type { z } from 'zod';
import { type Role, tokenSchema } from '../../../model/users.ts';
import type { Database, Queries, Query } from '../../connect/pool.ts';
import { selectList } from '../../sql.ts';
import { type ActiveUser, userColumns } from './users.ts';

interface NewToken {
  id: string;
  userId: string;
  name: string;
  role: Role;
  expiresAt: Date | null;
  /** The token whose request created this one. */
  madeBy: string | null;
  lookupId: string;
  secretHash: Buffer;
}

/** An API token as the API shows it, without the token or its hash. */
export type TokenRecord = z.output<typeof tokenSchema>;

const record = selectList(tokenSchema, 't', {
  user_email: 'u.email',
  client_id: 'g.client_id',
  agent_id: 'g.agent_id',
  state: `case when t.revoked_at is not null or a.revoked_at is not null then 'revoked' when t.expires_at <= now() then 'expired'
    when u.role_until <= now() then 'suspended' else 'active' end`,
});
const tokens = `api_tokens t join users u on u.id = t.user_id
  left join oauth_grants g on g.token_id = t.id left join agents a on a.id = g.agent_id`;

/** Which tokens a user may read and revoke. */
export interface TokenScope {
  /** Null: those of all users. */
  userId: string | null;
  /** Also those of other users for OAuth clients that act as an agent. */
  ofAgents: boolean;
}

export const everyToken: TokenScope = { userId: null, ofAgents: true };
const inScope = '($1::uuid is null or t.user_id = $1 or ($2 and g.agent_id is not null))';

/** Lists tokens, newest first. */
export function listTokens(
  { query }: Queries,
  { userId, ofAgents }: TokenScope,
  { agentId, before }: { agentId: string | null; before: string | null },
  limit: number,
): Promise<TokenRecord[]> {
  return query<TokenRecord>({
    text: `
      select ${record}
      from ${tokens}
      where ${inScope} and ($3::uuid is null or g.agent_id = $3)
        and ($4::uuid is null or (t.created_at, t.id) < (select b.created_at, b.id from api_tokens b where b.id = $4))
      order by t.created_at desc, t.id desc
      limit $5`,
    values: [userId, ofAgents, agentId, before, limit],
  });
}

/** Finds a token in a scope; undefined: not found. */
export async function findTokenRecord(
  { query }: Queries,
  id: string,
  { userId, ofAgents }: TokenScope,
): Promise<TokenRecord | undefined> {
  const [row] = await query<TokenRecord>({
    text: `select ${record} from ${tokens} where ${inScope} and t.id = $3`,
    values: [userId, ofAgents, id],
  });
  return row;
}

/** Locks the user's tokens against creation and revocation until the transaction ends. Returns false when the user is not active. */
export async function lockTokensOf(query: Query, userId: string): Promise<boolean> {
  const [row] = await query<{ active: boolean }>({
    text: 'select disabled_at is null as active from users where id = $1 for no key update',
    values: [userId],
  });
  return row?.active ?? false;
}

const active = 'revoked_at is null and (expires_at is null or expires_at > now())';

/** Counts the active tokens of a user. */
export async function countTokens(query: Query, userId: string): Promise<number> {
  const [row] = await query<{ count: number }>({
    text: `select count(*)::int as count from api_tokens where user_id = $1 and ${active}`,
    values: [userId],
  });
  return row!.count;
}

/** Reads when a token expires; undefined when it is not active. */
export async function readExpiry(query: Query, id: string): Promise<{ expiresAt: Date | null } | undefined> {
  const [row] = await query<{ expiresAt: Date | null }>({
    text: `select expires_at as "expiresAt" from api_tokens where id = $1 and ${active}`,
    values: [id],
  });
  return row;
}

/** Inserts a token. */
export async function insertToken(query: Query, token: NewToken): Promise<void> {
  const { id, userId, name, role, expiresAt, madeBy, lookupId, secretHash } = token;
  await query({
    text: `insert into api_tokens (id, user_id, name, role, expires_at, made_by, lookup_id, secret_hash)
           values ($1, $2, $3, $4, $5, $6, $7, $8)`,
    values: [id, userId, name, role, expiresAt?.toISOString() ?? null, madeBy, lookupId, secretHash],
  });
}

/** Follows made_by upwards from the token `id`. True when it reaches `ancestorId`, including when both are the same. */
export async function isCreatedBy({ query }: Queries, id: string, ancestorId: string): Promise<boolean> {
  const rows = await query({
    text: `
      with recursive ancestors as (
        select id, made_by from api_tokens where id = $1
        union
        select t.id, t.made_by from api_tokens t join ancestors a on t.id = a.made_by
      )
      select 1 from ancestors where id = $2`,
    values: [id, ancestorId],
  });
  return rows.length > 0;
}

/** Revokes all active tokens of a user. Returns the ids of the revoked tokens. */
export async function revokeTokensOfUser(query: Query, userId: string): Promise<string[]> {
  await lockTokensOf(query, userId);
  const rows = await query<{ id: string }>({
    text: `update api_tokens set revoked_at = now() where user_id = $1 and ${active} returning id`,
    values: [userId],
  });
  return rows.map((row) => row.id);
}

/** Revokes a token and, recursively, the tokens created with it. Returns the ids of the revoked tokens. */
export async function revokeTokens(query: Query, id: string): Promise<string[]> {
  const rows = await query<{ id: string }>({
    text: `
      with recursive family as (
        select $1::uuid as id
        union
        select t.id from api_tokens t join family f on t.made_by = f.id
      )
      update api_tokens set revoked_at = now()
      where id in (select id from family) and revoked_at is null
      returning id`,
    values: [id],
  });
  return rows.map((row) => row.id);
}

export const isStale = `coalesce(t.last_used_at < now() - interval '1 minute', true)`;

export interface TokenUser extends ActiveUser {
  tokenId: string;
  tokenRole: Role;
  secretHash: Buffer;
  /** The role that the provider granted to the user has expired. */
  suspended: boolean;
}

/** Finds the users of active API tokens by the tokens' lookup ids, and the tokens' roles. Updates the last use at most once a minute. */
export async function findTokenUsers(
  database: Database,
  lookupIds: readonly string[],
): Promise<Map<string, TokenUser>> {
  const rows = await database.query<TokenUser & { lookupId: string; stale: boolean }>({
    name: 'find-tokens',
    text: `
      select ${userColumns}, t.lookup_id as "lookupId", t.id as "tokenId", t.role as "tokenRole",
        t.secret_hash as "secretHash", coalesce(u.role_until <= now(), false) as suspended,
        ${isStale} as stale
      from api_tokens t join users u on u.id = t.user_id
      where t.lookup_id = any ($1) and t.revoked_at is null and (t.expires_at is null or t.expires_at > now())
        and u.disabled_at is null`,
    values: [lookupIds],
  });
  await recordUses(
    database,
    rows.filter(({ suspended }) => !suspended),
  );
  return new Map(rows.map((row) => [row.lookupId, row]));
}

/** Updates the last use of those tokens whose last use is older than a minute. */
export async function recordUses(
  database: Database,
  rows: readonly { tokenId: string; stale: boolean }[],
): Promise<void> {
  const stale = rows.flatMap((row) => (row.stale ? [row.tokenId] : []));
  if (stale.length > 0)
    await database.query({
      text: 'update api_tokens set last_used_at = greatest(last_used_at, now()) where id = any ($1)',
      values: [stale],
    });
}
