/** Configuration on its way from home to a cell. */
import type { Queries, Query } from '../../connect/pool.ts';
import { arrayOf } from '../../sql.ts';

interface PendingCopy {
  kind: 'webhook' | 'agent';
  id: string;
  version: number;
}

/** Reads which cells lack some configuration, and whether a webhook is moving. The primary calls it every second. Call at home. */
export async function readCellWork({ query }: Queries): Promise<{ cells: number[]; moves: boolean }> {
  const [row] = await query<{ cells: number[]; moves: boolean }>({
    name: 'read-cell-work',
    text: `
      select array(select distinct cell::int from cell_copies) as cells,
        exists (select from webhooks where moving_from is not null) as moves`,
    values: [],
    plan: 'once',
  });
  return row!;
}

/** Reads which objects a cell lacks, at most `limit`, webhooks first: subscriptions refer to them. Call at home. */
export function readPendingCopies(query: Query, cell: number, limit: number): Promise<PendingCopy[]> {
  return query<PendingCopy>({
    text: `select kind, id, version::float8 as version from cell_copies where cell = $1 order by kind desc, since limit $2`,
    values: [cell, limit],
  });
}

/** Removes copied objects from the list of pending ones. An object that has changed since stays in the list. */
export async function forgetCopies(query: Query, cell: number, copied: readonly PendingCopy[]): Promise<void> {
  await query({
    text: `
      delete from cell_copies p using json_to_recordset($2) c (kind text, id uuid, version bigint)
      where p.cell = $1 and p.kind = c.kind and p.id = c.id and p.version = c.version`,
    values: [cell, JSON.stringify(copied)],
  });
}

/**
 * Notes that a cell needs all configuration, agents with their subscriptions: it is new, was restored from a backup, or lacks some. Call at
 * home.
 */
export async function noteEverything(
  query: Query,
  cell: number,
  kinds: readonly PendingCopy['kind'][] = ['webhook', 'agent'],
): Promise<void> {
  await query({
    text: `
      insert into cell_copies (cell, kind, id)
      ${kinds.map((kind) => `select $1::smallint, '${kind}', id from ${kind}s`).join(' union all ')}
      on conflict (cell, kind, id) do update set version = cell_copies.version + 1`,
    values: [cell],
  });
}

/** The tables that are copied, with their keys, of which the first is the id of the object. No secret is among the columns. */
const tables: readonly {
  table: string;
  kind: PendingCopy['kind'];
  keys: readonly string[];
  others: readonly string[];
}[] = [
  {
    table: 'webhooks',
    kind: 'webhook',
    keys: ['id'],
    others: ['name', 'created_at', 'deleted_at', 'retention_days', 'cell', 'moving_from'],
  },
  {
    table: 'agents',
    kind: 'agent',
    keys: ['id'],
    others: ['name', 'created_at', 'generation', 'max_leased', 'revoked_at', 'paused_at', 'temporary'],
  },
  {
    table: 'subscriptions',
    kind: 'agent',
    keys: ['agent_id', 'webhook_id'],
    others: ['filter', 'filter_slow', 'filter_slow_at', 'order_id'],
  },
  {
    table: 'replay_targets',
    kind: 'agent',
    keys: ['agent_id', 'webhook_id'],
    others: ['filter', 'filter_slow', 'filter_slow_at'],
  },
];

/** Time limit of a digest, which is computed at 170,000 rows a second. */
const DIGEST_TIMEOUT_MS = 60_000;

/** Digest of the copied columns of all agents. It is equal at home and in a cell that has all agents: their sessions have one time zone. */
export async function readAgentsDigest({ query }: Queries): Promise<string> {
  const rows = tables
    .filter(({ kind }) => kind === 'agent')
    .map(({ table, keys, others }) => `select row(${[...keys, ...others].join(', ')})::text as of from ${table}`);
  const [row] = await query<{ digest: string }>({
    text: `
      select coalesce(sum(('x' || encode(substr(sha256(convert_to(of, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint::numeric), 0)::text as digest
      from (${rows.join(' union all ')}) copied`,
    timeoutMs: DIGEST_TIMEOUT_MS,
  });
  return row!.digest;
}

/** Rows of a table, as JSON text. */
type Copy = (typeof tables)[number] & { ids: readonly string[]; rows: string };

/** Reads the rows of these objects at home. */
export async function readCopies(query: Query, pending: readonly PendingCopy[]): Promise<Copy[]> {
  const copies: Copy[] = [];
  for (const of of tables) {
    const ids = pending.filter(({ kind }) => kind === of.kind).map(({ id }) => id);
    if (ids.length === 0) continue;
    const columns = [...of.keys, ...of.others];
    const [found] = await query<{ rows: string }>({
      text: `select coalesce(json_agg(t), '[]')::text as rows from (select ${columns.join(', ')} from ${of.table} where ${of.keys[0]} = any ($1::uuid[])) t`,
      values: [arrayOf(ids)],
    });
    copies.push({ ...of, ids, rows: found!.rows });
  }
  return copies;
}

/**
 * Makes the rows in the cell equal to those at home. A subscription to a webhook that is not there yet is left out: it is copied again. Call
 * in a transaction of the cell.
 */
export async function writeCopies(query: Query, copies: readonly Copy[]): Promise<void> {
  for (const { table, keys, others, ids, rows } of copies) {
    const given = `select * from json_populate_recordset(null::${table}, $1::json)`;
    await query({
      text: `
        delete from ${table} t where t.${keys[0]} = any ($2::uuid[])
          and not exists (select from (${given}) g where ${keys.map((column) => `g.${column} = t.${column}`).join(' and ')})`,
      values: [rows, arrayOf(ids)],
    });
    const known = keys.includes('webhook_id') ? 'where exists (select from webhooks w where w.id = g.webhook_id)' : '';
    const columns = [...keys, ...others];
    await query({
      text: `
        insert into ${table} (${columns.join(', ')})
        select ${columns.map((column) => `g.${column}`).join(', ')} from (${given}) g ${known}
        on conflict (${keys.join(', ')}) do update set ${others.map((column) => `${column} = excluded.${column}`).join(', ')}`,
      values: [rows],
    });
  }
}

/**
 * Allows agents without a credential in the database of a cell, since secrets are not copied. Call after the migrations. Tables that are not
 * copied, such as those of users and tokens, stay empty in a cell.
 */
export async function allowCopies(query: Query): Promise<void> {
  await query({
    text: 'alter table agents alter column lookup_id drop not null; alter table agents alter column secret_hash drop not null',
  });
}
