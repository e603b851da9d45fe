/** OAuth for /mcp: registered clients, and grants. A grant is a token of its user (tokens.ts) with a row of its own. */
import type { Role } from '../../../model/users.ts';
import type { Database, Queries, Query } from '../../connect/pool.ts';
import { isStale, recordUses } from './tokens.ts';
import { type ActiveUser, roleRank, userColumns } from './users.ts';

interface RegisteredClient {
  id: string;
  name: string;
  redirectUris: string[];
}

/**
 * Inserts a client for a day. At `most` clients it replaces the client that expires first: in a flood that is a new client, since clients
 * with a grant expire later.
 */
export async function insertClient({ query }: Queries, given: RegisteredClient, most: number): Promise<void> {
  await query({
    text: `with replaced as (delete from oauth_clients where id in (select id from oauth_clients order by expires_at
             limit greatest(0, (select count(*) from oauth_clients) - $4 + 1)))
           insert into oauth_clients (id, name, redirect_uris, expires_at) values ($1, $2, $3, now() + interval '1 day')`,
    values: [given.id, given.name, given.redirectUris, most],
  });
}

/** Finds a registered client that has not expired. @param id any text */
export async function findClient({ query }: Queries, id: string): Promise<RegisteredClient | undefined> {
  const [row] = await query<RegisteredClient>({
    text: `select id, name, redirect_uris as "redirectUris" from oauth_clients where id::text = $1 and expires_at > now()`,
    values: [id],
  });
  return row;
}

/** Deletes expired clients. */
export async function deleteExpiredClients({ query }: Queries): Promise<void> {
  await query({ text: 'delete from oauth_clients where expires_at <= now()' });
}

interface Granted {
  tokenId: string;
  lookupId: string;
  clientId: string;
  /** Null: the client acts as the person. */
  agentId: string | null;
  resource: string;
  redirectUri: string;
  codeHash: Buffer;
  /** PKCE, S256. */
  codeChallenge: string;
}

/**
 * Inserts a grant that ends after `codeSeconds` unless its code is exchanged, and when the role of the user is lower than `role`. The
 * secret of its row among the API tokens is random and stored nowhere, so that no text is accepted as the API token of that row.
 */
export async function insertGrant(
  query: Query,
  given: Granted & { userId: string; name: string; role: Role },
  codeSeconds: number,
): Promise<void> {
  const { tokenId, userId, name, role, lookupId, clientId, agentId, resource, redirectUri, codeHash, codeChallenge } =
    given;
  await query({
    text: `with token as (
             insert into api_tokens (id, user_id, name, role, lookup_id, expires_at, secret_hash)
             values ($1, $2, $3, $4, $5, now() + make_interval(secs => $6), sha256(uuid_send(gen_random_uuid()))) returning id)
           insert into oauth_grants (token_id, client_id, agent_id, resource, redirect_uri, code_hash, code_challenge)
           select id, $7, $8, $9, $10, $11, $12 from token`,
    values: [
      ...[tokenId, userId, name, role, lookupId, codeSeconds],
      ...[clientId, agentId, resource, redirectUri, codeHash, codeChallenge],
    ],
  });
}

export interface Grant extends Granted, ActiveUser {
  tokenRole: Role;
  isCodeUsed: boolean;
  /** Null until the code is exchanged, like `accessSeconds` and `refreshHash`. */
  accessHash: Buffer | null;
  /** Until the access token expires. */
  accessSeconds: number | null;
  refreshHash: Buffer | null;
  /** The user is active and has the role, the agent is active, and the grant is neither revoked nor expired. */
  holds: boolean;
}

const grants = `
  select ${userColumns}, t.id as "tokenId", t.lookup_id as "lookupId", t.role as "tokenRole", g.client_id as "clientId",
    g.agent_id as "agentId", g.resource, g.redirect_uri as "redirectUri", g.code_hash as "codeHash", g.code_challenge as "codeChallenge",
    g.code_used_at is not null as "isCodeUsed", g.access_hash as "accessHash", g.refresh_hash as "refreshHash",
    extract(epoch from g.access_expires_at - now())::float8 as "accessSeconds", ${isStale} as stale,
    (t.revoked_at is null and t.expires_at > now() and u.disabled_at is null and (u.role_until is null or u.role_until > now())
      and ${roleRank('u.role')} >= ${roleRank('t.role')} and a.revoked_at is null) as holds
  from oauth_grants g join api_tokens t on t.id = g.token_id join users u on u.id = t.user_id left join agents a on a.id = g.agent_id
  where t.lookup_id = any ($1)`;

/** Reads grants by their look-up ids. Updates the last use of those that hold, at most once a minute. */
export async function readGrants(database: Database, lookupIds: readonly string[]): Promise<Map<string, Grant>> {
  const values = [lookupIds];
  const rows = await database.query<Grant & { stale: boolean }>({ name: 'oauth-grants', text: grants, values });
  await recordUses(
    database,
    rows.filter(({ holds }) => holds),
  );
  return new Map(rows.map((row) => [row.lookupId, row]));
}

/** Locks a grant until the transaction ends. */
export async function lockGrant(query: Query, lookupId: string): Promise<Grant | undefined> {
  const [row] = await query<Grant>({ text: `${grants} for update of g`, values: [[lookupId]] });
  return row;
}

interface Renewal {
  accessHash: Buffer;
  accessSeconds: number;
  refreshHash: Buffer;
  /** Until the grant expires. */
  seconds: number;
}

/** Replaces the hashes of a grant's tokens, and extends the grant. The client stays registered for 90 days. */
export async function renewGrant(query: Query, { tokenId, clientId }: Grant, next: Renewal): Promise<void> {
  await query({
    text: `with issued as (
             update oauth_grants set code_used_at = coalesce(code_used_at, now()), access_hash = $2,
               access_expires_at = now() + make_interval(secs => $3), refresh_hash = $4
             where token_id = $1),
           kept as (update oauth_clients set expires_at = now() + interval '90 days' where id::text = $6)
           update api_tokens set expires_at = now() + make_interval(secs => $5) where id = $1`,
    values: [tokenId, next.accessHash, next.accessSeconds, next.refreshHash, next.seconds, clientId],
  });
}
