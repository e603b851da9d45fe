/** Configuration on its way from home to a cell. */
import type { Database, Query } from '../../connect/pool.ts';
import { arrayOf } from '../../sql.ts';

interface PendingCopy {
  kind: 'webhook' | 'agent';
  id: string;
  version: number;
}

/**
 * Reads which cells do not have some configuration yet, and whether a webhook moves. One statement for all cells, planned once: the primary asks
 * every second. Call at home.
 */
export async function readCellWork({ query }: Pick<Database, 'query'>): Promise<{ cells: number[]; moves: boolean }> {
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

/** Reads what a cell does not have yet, at most `limit`, webhooks first: subscriptions refer to them. Call at home. */
export function readPendingCopies(query: Query, cell: number, limit: number): Promise<PendingCopy[]> {
  return query<PendingCopy>({
    text: `select kind, id, version::float8 as version from cell_copies where cell = $1 order by kind desc, since limit $2`,
    values: [cell, limit],
  });
}

/** Forgets what was copied, unless it has changed since. */
export async function forgetCopies(query: Query, cell: number, copied: readonly PendingCopy[]): Promise<void> {
  await query({
    text: `
      delete from cell_copies p using json_to_recordset($2) c (kind text, id uuid, version bigint)
      where p.cell = $1 and p.kind = c.kind and p.id = c.id and p.version = c.version`,
    values: [cell, JSON.stringify(copied)],
  });
}

/** Notes that a cell needs all of the configuration. */
export async function noteEverything(query: Query, cell: number): Promise<void> {
  await query({
    text: `
      insert into cell_copies (cell, kind, id)
      select $1::smallint, 'webhook', id from webhooks union all select $1::smallint, 'agent', id from agents
      on conflict (cell, kind, id) do update set version = cell_copies.version + 1`,
    values: [cell],
  });
}

/** Notes that every cell needs all agents again, with their subscriptions. Call at home. */
export async function noteAgents({ query }: Pick<Database, 'query'>): Promise<void> {
  await query({
    text: `
      insert into cell_copies (cell, kind, id) select number, 'agent', agents.id from cells, agents
      on conflict (cell, kind, id) do update set version = cell_copies.version + 1`,
  });
}

/** The tables that are copied, with their columns and their key. No secret is among them. */
const tables = {
  webhooks: {
    of: 'id',
    key: 'id',
    columns: ['id', 'name', 'created_at', 'deleted_at', 'retention_days', 'cell', 'moving_from'],
  },
  agents: {
    of: 'id',
    key: 'id',
    columns: ['id', 'name', 'created_at', 'generation', 'max_leased', 'revoked_at', 'paused_at', 'temporary'],
  },
  subscriptions: {
    of: 'agent_id',
    key: 'agent_id, webhook_id',
    columns: ['agent_id', 'webhook_id', 'filter', 'filter_slow', 'filter_slow_at', 'order_id'],
  },
  replay_targets: {
    of: 'agent_id',
    key: 'agent_id, webhook_id',
    columns: ['agent_id', 'webhook_id', 'filter', 'filter_slow', 'filter_slow_at'],
  },
} as const;
type CopiedTable = keyof typeof tables;
const copiedWith = {
  webhook: ['webhooks'],
  agent: ['agents', 'subscriptions', 'replay_targets'],
} as const satisfies Record<PendingCopy['kind'], readonly CopiedTable[]>;

/** Rows by table, as JSON text. */
type Copies = ReadonlyMap<CopiedTable, { ids: readonly string[]; rows: string }>;

/** Reads the rows of these objects at home. @param isOrdered whether deliveries of the cell wait for others of their key */
export async function readCopies(query: Query, pending: readonly PendingCopy[], isOrdered: boolean): Promise<Copies> {
  const copies = new Map<CopiedTable, { ids: readonly string[]; rows: string }>();
  for (const kind of ['webhook', 'agent'] as const) {
    const ids = pending.filter((each) => each.kind === kind).map(({ id }) => id);
    if (ids.length === 0) continue;
    for (const table of copiedWith[kind]) {
      const { of, columns: all } = tables[table];
      const columns = all.filter((column) => isOrdered || column !== 'order_id');
      const [found] = await query<{ rows: string }>({
        text: `select coalesce(json_agg(t), '[]')::text as rows from (select ${columns.join(', ')} from ${table} where ${of} = any ($1::uuid[])) t`,
        values: [arrayOf(ids)],
      });
      copies.set(table, { ids, rows: found!.rows });
    }
  }
  return copies;
}

/**
 * Makes the rows of these objects in the cell equal to those at home. A subscription to a webhook that is not there yet is left out: its
 * agent is copied again. Call in a transaction of the cell.
 */
export async function writeCopies(query: Query, copies: Copies): Promise<void> {
  for (const [table, { ids, rows }] of copies) {
    const { of, key, columns } = tables[table];
    const keys = key.split(', ');
    const others = columns.filter((column) => !keys.includes(column));
    const given = `select * from json_populate_recordset(null::${table}, $1::json)`;
    await query({
      text: `
        delete from ${table} t where t.${of} = any ($2::uuid[])
          and not exists (select from (${given}) g where ${keys.map((column) => `g.${column} = t.${column}`).join(' and ')})`,
      values: [rows, arrayOf(ids)],
    });
    const known = keys.includes('webhook_id') ? 'where exists (select from webhooks w where w.id = g.webhook_id)' : '';
    await query({
      text: `
        insert into ${table} (${columns.join(', ')})
        select ${columns.map((column) => `g.${column}`).join(', ')} from (${given}) g ${known}
        on conflict (${key}) do update set ${others.map((column) => `${column} = excluded.${column}`).join(', ')}`,
      values: [rows],
    });
  }
}

/** The tables of users, tokens and so on stay empty in a cell; an agent there has no credential. Call after the migrations. */
export async function allowCopies(query: Query): Promise<void> {
  await query({
    text: 'alter table agents alter column lookup_id drop not null; alter table agents alter column secret_hash drop not null',
  });
}
