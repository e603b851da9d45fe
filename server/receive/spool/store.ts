/** Stores spooled events in the database, each one once however often it is tried. */
import type { Cell } from '../../store/cells/cell.ts';
import { sqlStateKind } from '../../store/connect/unavailable.ts';
import { CopyConnection } from '../../store/copy/connection.ts';
import { copyData } from '../../store/copy/rows.ts';
import { createDays } from '../../store/retention/partitions.ts';
import { moveMarksBack } from '../../store/retention/retention.ts';
import { arrayOf } from '../../store/sql.ts';
import { claimSql, elsewhereSql, isElsewhere, readElsewhere, readOwners } from './moved-keys.ts';
import { type Frame, keyedRows, receivedTimes, type SpooledKey } from './segment.ts';

/** The outcome of one transaction, in numbers of events. */
export interface DrainCounts {
  /** Events that are in the database now and were not before. */
  stored: number;
  /** Events whose deduplication key belongs to another event: not stored. */
  duplicates: number;
  /** Events that were in the database already: their first commit had succeeded, or an earlier drain was interrupted. */
  known: number;
  /** Stored events whose webhook is deleted. */
  webhookDeleted: number;
}

/** Counts over many transactions, with the events that the database refused. */
export type DrainTotals = DrainCounts & { refused: number };

/** Totals of 0. */
export function noTotals(): DrainTotals {
  return { stored: 0, duplicates: 0, known: 0, webhookDeleted: 0, refused: 0 };
}

/** Adds the counts of one transaction to the totals. */
export function addCounts(totals: DrainCounts, more: DrainCounts): void {
  for (const name of ['stored', 'duplicates', 'known', 'webhookDeleted'] as const) totals[name] += more[name];
}

type StoreResult =
  | ({ kind: 'committed' } & DrainCounts)
  /** The database refuses the content of a row; nothing was stored. */
  | { kind: 'refused'; sqlState: string; message: string }
  /** Nothing was stored, or the outcome is unknown: try again. `partitionMissing`: create the partitions of the rows first. */
  | { kind: 'unavailable'; reason: string; partitionMissing: boolean };

/** A transaction that takes longer is treated as a lost connection. */
const TIMEOUT_MS = 60_000;
const MOVING = 'a webhook is moving to another cell';

/** Claims keys in another cell, see SpoolStore.claim. */
type ClaimIn = (cell: number, keys: readonly SpooledKey[]) => Promise<Map<string, string>>;

/** Where a drain stores its events: one connection, used for one transaction at a time. */
export type DrainTarget = Pick<SpoolStore, 'connect' | 'store' | 'createPartitions'>;

export class SpoolStore {
  readonly #cell: Pick<Cell, 'number' | 'away' | 'conninfo' | 'tables'>;
  readonly #retentionDays: () => number;
  readonly #claimIn: ClaimIn;
  #connection: CopyConnection | null = null;

  /** @param retentionDays RETENTION_DAYS: a key expires with its event. */
  constructor(
    cell: Pick<Cell, 'number' | 'away' | 'conninfo' | 'tables'>,
    retentionDays: () => number,
    claimIn: ClaimIn,
  ) {
    this.#cell = cell;
    this.#retentionDays = retentionDays;
    this.#claimIn = claimIn;
  }

  /** Rejects when the database cannot be reached. A cell that is away may be another server when it answers, so it is not tried. */
  async connect(): Promise<void> {
    const { away, number, conninfo } = this.#cell;
    if (away !== null) throw new Error(`cell ${number}: ${away}`);
    const onClosed = () => {
      this.#connection = null;
    };
    this.#connection ??= await CopyConnection.connect(conninfo, onClosed, 'weir-spool');
  }

  /** Stores the rows in one transaction, all or none. Never rejects. */
  async store(columns: readonly string[], rows: Frame): Promise<StoreResult> {
    try {
      return await this.#inTime((connection) => this.#transact(connection, columns, rows));
    } catch (error) {
      const { code = '', message } = error as Error & { code?: string };
      // The transaction is open, or its outcome is unknown: the server rolls it back when the connection ends.
      this.close();
      const kind = sqlStateKind(code);
      if (kind === 'data') return { kind: 'refused', sqlState: code, message };
      return { kind: 'unavailable', reason: message.trim(), partitionMissing: kind === 'partition_missing' };
    }
  }

  /**
   * Claims deduplication keys in this cell for spooled events of other cells. Returns, for each event, the event that has its key. Rejects
   * when the keys of one of the webhooks are not in this cell.
   */
  async claim(keys: readonly SpooledKey[]): Promise<Map<string, string>> {
    const values = [JSON.stringify(keys), String(this.#cell.number), String(this.#retentionDays())];
    const lines = await this.#inTime((connection) => connection.run(claimSql, values)).catch((error: Error) => {
      this.close();
      throw new Error(error.message);
    });
    return readOwners(lines, keys, this.#cell.number);
  }

  /** Creates the partitions of these rows' days. Rejects when it cannot. */
  async createPartitions(columns: readonly string[], rows: Frame): Promise<void> {
    await createDays(this.#cell.tables, receivedTimes(columns, rows));
  }

  close(): void {
    this.#connection?.close();
    this.#connection = null;
  }

  async #inTime<T>(work: (connection: CopyConnection) => Promise<T>): Promise<T> {
    const timer = setTimeout(() => this.#connection?.close(`no commit within ${TIMEOUT_MS} ms`), TIMEOUT_MS);
    try {
      await this.connect();
      return await work(this.#connection!);
    } finally {
      clearTimeout(timer);
    }
  }

  async #transact(connection: CopyConnection, columns: readonly string[], rows: Frame): Promise<StoreResult> {
    if (!columns.every((name) => /^[a-z_]+$/.test(name))) throw new Error(`bad column names: ${columns}`);
    await connection.run(`begin; ${createStaging}`);
    const copied = await connection.copyIn(
      `copy pg_temp.spooled (${columns.join(', ')}, key) from stdin (format binary)`,
      copyData(rows.payload),
    );
    if (copied.kind === 'lost') throw new Error(copied.message);
    if (copied.kind === 'refused') throw Object.assign(new Error(copied.message), { code: copied.sqlState });
    await this.#claimMoved(connection, () => keyedRows(columns, rows));
    const [text] = await connection.run(storeSql(columns, this.#retentionDays(), this.#cell.number));
    const [stored, fresh, webhookDeleted, elsewhere] = text!.split(' ').map(Number) as [number, number, number, number];
    if (elsewhere > 0) throw new Error(MOVING);
    await connection.run('commit');
    // `fresh` counts events without a key, and events whose key belongs to no other event.
    return { kind: 'committed', stored, duplicates: rows.events - fresh, known: fresh - stored, webhookDeleted };
  }

  /**
   * Claims the keys of moved webhooks in the cells that have them now. An event that gets its key is stored without a key here; an event
   * whose key belongs to another event is removed from the rows.
   */
  async #claimMoved(connection: CopyConnection, readKeys: () => readonly SpooledKey[]): Promise<void> {
    const elsewhere = readElsewhere(await connection.run(elsewhereSql(this.#cell.number)));
    if (elsewhere.some(({ moving }) => moving)) throw new Error(MOVING);
    const cellOf = new Map(elsewhere.map(({ webhook, cell }) => [webhook, cell]));
    const keys = elsewhere.length === 0 ? [] : readKeys();
    for (const cell of new Set(cellOf.values())) {
      const owners = await this.#claimIn(
        cell,
        keys.filter(({ webhook }) => cellOf.get(webhook) === cell),
      );
      const own = [...owners].filter(([event, owner]) => event === owner).map(([event]) => event);
      const repeated = [...owners].filter(([event, owner]) => event !== owner).map(([event]) => event);
      await connection.run('delete from pg_temp.spooled where id = any ($1::uuid[])', [arrayOf(repeated)]);
      await connection.run('update pg_temp.spooled set key = null where id = any ($1::uuid[])', [arrayOf(own)]);
    }
  }
}

/** Rows are copied here first, because COPY has no ON CONFLICT. Dropped with the transaction, so a pooler may share the session. */
const createStaging = 'create temp table spooled (like events, key bytea) on commit drop';

/**
 * Keys are inserted in sorted order, and an existing key is updated with its own values, as in queries/events/store-deduped.ts. An event that is stored
 * already conflicts with itself, also while its first commit is still in progress. Retention has a mark up to which it has removed
 * the events of a webhook; events from before that mark move it back, or they would be kept too long. No NOTIFY: it is outside commits
 * (see waiting-claims.ts), and waiting claims query once a second anyway.
 *
 * The last number counts the keys that must not be stored in this cell (see cells/move.ts); then the transaction is rolled back.
 */
function storeSql(columns: readonly string[], retentionDays: number, cell: number): string {
  const list = columns.join(', ');
  return `
    with claimed as (
      insert into dedupe_keys as known (webhook_id, key, event_id, expires_at)
      select distinct on (webhook_id, key) webhook_id, key, spooled.id,
        now() + make_interval(days => least(${retentionDays}, webhooks.retention_days))
      from pg_temp.spooled left join webhooks on webhooks.id = webhook_id
      where key is not null
      order by webhook_id, key, received_at, spooled.id
      on conflict (webhook_id, key) do update set
        event_id = case when known.expires_at > now() then known.event_id else excluded.event_id end,
        expires_at = case when known.expires_at > now() then known.expires_at else excluded.expires_at end
      returning webhook_id, event_id
    ), fresh as materialized (
      select * from pg_temp.spooled
      where key is null or (webhook_id, id) in (select webhook_id, event_id from claimed)
    ), stored as (
      insert into events (${list}) select ${list} from fresh
      on conflict do nothing
      returning webhook_id
    ), kept_again as (
      ${moveMarksBack('fresh')}
    )
    select concat_ws(' ', (select count(*) from stored), (select count(*) from fresh),
      (select count(*) from stored left join webhooks on webhooks.id = webhook_id
       where webhooks.id is null or webhooks.deleted_at is not null),
      (select count(*) from pg_temp.spooled join webhooks on webhooks.id = webhook_id where key is not null and ${isElsewhere(cell)}))`;
}
