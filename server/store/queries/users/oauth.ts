/** OAuth for /mcp: registered clients, and grants. A grant is a token of its user (tokens.ts) with a row of its own. */
import type { Role } from '../../../model/users.ts';
import { advisoryLocks } from '../../advisory-locks.ts';
import type { Database, Query } from '../../connect/pool.ts';
import { isUuid } from '../../ids.ts';
import { isStale, recordUses } from './tokens.ts';
import { type ActiveUser, roleRank, userColumns } from './users.ts';

interface RegisteredClient {
  id: string;
  name: string;
  redirectUris: string[];
}

/** A client without a grant is forgotten this long after its registration, and one with grants after the last of them. */
const CLIENT_SECONDS = 3_600;

/**
 * Inserts a client. At `most` clients it replaces the oldest one without a grant, expired ones first. Returns false if all have grants.
 */
export function insertClient(
  database: Pick<Database, 'transaction'>,
  { id, name, redirectUris }: RegisteredClient,
  most: number,
): Promise<boolean> {
  return database.transaction(async (query) => {
    await query({ text: 'select pg_advisory_xact_lock($1)', values: [advisoryLocks.oauthClients] });
    await query({
      text: `delete from oauth_clients where id in (
               select id from oauth_clients where expires_at <= now() + make_interval(secs => $1)
               order by expires_at limit greatest(0, (select count(*) from oauth_clients) - $2 + 1))`,
      values: [CLIENT_SECONDS, most],
    });
    const rows = await query({
      text: `insert into oauth_clients (id, name, redirect_uris, expires_at)
             select $1, $2, $3, now() + make_interval(secs => $4)
             where (select count(*) from oauth_clients) < $5 returning 1`,
      values: [id, name, redirectUris, CLIENT_SECONDS, most],
    });
    return rows.length > 0;
  });
}

export async function findClient({ query }: { query: Query }, id: string): Promise<RegisteredClient | undefined> {
  if (!isUuid(id)) return undefined;
  const [row] = await query<RegisteredClient>({
    text: `select id, name, redirect_uris as "redirectUris" from oauth_clients where id = $1 and expires_at > now()`,
    values: [id],
  });
  return row;
}

export async function deleteExpiredClients({ query }: { query: Query }): Promise<void> {
  await query({ text: 'delete from oauth_clients where expires_at <= now()' });
}

interface NewGrant {
  tokenId: string;
  userId: string;
  /** Name of the client. */
  name: string;
  /** The grant ends when the role of the user is lower than this. */
  role: Role;
  agentId: string | null;
  clientId: string;
  resource: string;
  redirectUri: string;
  codeChallenge: string;
  lookupId: string;
  codeHash: Buffer;
  /** Random, so that no API token is this grant. */
  noHash: Buffer;
}

/** Inserts a grant that ends after `codeSeconds` unless its code is exchanged. */
export async function insertGrant(query: Query, grant: NewGrant, codeSeconds: number): Promise<void> {
  await query({
    text: `insert into api_tokens (id, user_id, name, role, lookup_id, secret_hash, expires_at)
           values ($1, $2, $3, $4, $5, $6, now() + make_interval(secs => $7))`,
    values: [grant.tokenId, grant.userId, grant.name, grant.role, grant.lookupId, grant.noHash, codeSeconds],
  });
  await query({
    text: `insert into oauth_grants (token_id, client_id, agent_id, resource, redirect_uri, code_hash, code_challenge)
           values ($1, $2, $3, $4, $5, $6, $7)`,
    values: [
      grant.tokenId,
      grant.clientId,
      grant.agentId,
      grant.resource,
      grant.redirectUri,
      grant.codeHash,
      grant.codeChallenge,
    ],
  });
}

/** Whether the user is active and has the role, the agent is active, and the grant is neither revoked nor expired. */
const holds = `(t.revoked_at is null and t.expires_at > now() and u.disabled_at is null
  and (u.role_until is null or u.role_until > now()) and ${roleRank('u.role')} >= ${roleRank('t.role')}
  and (g.agent_id is null or a.revoked_at is null))`;
const grants = `oauth_grants g join api_tokens t on t.id = g.token_id join users u on u.id = t.user_id
  left join agents a on a.id = g.agent_id`;

export interface Grant {
  tokenId: string;
  lookupId: string;
  clientId: string;
  resource: string;
  redirectUri: string;
  codeHash: Buffer;
  codeChallenge: string;
  isCodeUsed: boolean;
  accessHash: Buffer | null;
  /** Null until the code is exchanged. */
  refreshHash: Buffer | null;
  holds: boolean;
}

/** Locks the grant with this look-up id until the transaction ends. */
export async function lockGrant(query: Query, lookupId: string): Promise<Grant | undefined> {
  const [row] = await query<Grant>({
    text: `
      select t.id as "tokenId", t.lookup_id as "lookupId", g.client_id as "clientId", g.resource, g.redirect_uri as "redirectUri",
        g.code_hash as "codeHash", g.code_challenge as "codeChallenge", g.code_used_at is not null as "isCodeUsed",
        g.access_hash as "accessHash", g.refresh_hash as "refreshHash", ${holds} as holds
      from ${grants} where t.lookup_id = $1 for update of g`,
    values: [lookupId],
  });
  return row;
}

/** Stores the hashes of new tokens in place of those before. The grant expires `seconds` from now, and its client later. */
export async function renewGrant(
  query: Query,
  { tokenId, clientId }: Grant,
  {
    accessHash,
    accessSeconds,
    refreshHash,
    seconds,
  }: {
    accessHash: Buffer;
    accessSeconds: number;
    refreshHash: Buffer;
    seconds: number;
  },
): Promise<void> {
  await query({
    text: `update oauth_grants set code_used_at = coalesce(code_used_at, now()), access_hash = $2, refresh_hash = $3,
             access_expires_at = now() + make_interval(secs => $4)
           where token_id = $1`,
    values: [tokenId, accessHash, refreshHash, accessSeconds],
  });
  await query({
    text: 'update api_tokens set expires_at = now() + make_interval(secs => $2) where id = $1',
    values: [tokenId, seconds],
  });
  if (isUuid(clientId))
    await query({
      text: 'update oauth_clients set expires_at = now() + make_interval(secs => $2) where id = $1',
      values: [clientId, seconds + CLIENT_SECONDS],
    });
}

export interface Access extends ActiveUser {
  tokenId: string;
  tokenRole: Role;
  agentId: string | null;
  accessHash: Buffer;
}

/** Finds current access tokens for this resource by their look-up ids. Updates the last use at most once a minute. */
export async function findAccess(
  database: Database,
  lookupIds: readonly string[],
  resource: string,
): Promise<Map<string, Access>> {
  const rows = await database.query<Access & { lookupId: string; stale: boolean }>({
    name: 'find-oauth-access',
    text: `
      select ${userColumns}, t.lookup_id as "lookupId", t.id as "tokenId", t.role as "tokenRole", g.agent_id as "agentId",
        g.access_hash as "accessHash", ${isStale} as stale
      from ${grants}
      where t.lookup_id = any ($1) and g.access_expires_at > now() and g.resource = $2 and ${holds}`,
    values: [lookupIds, resource],
  });
  await recordUses(database, rows);
  return new Map(rows.map((row) => [row.lookupId, row]));
}
