/** `weir restore`: loads a backup into an empty database, all of it or nothing. */
import type { Readable, Writable } from 'node:stream';
import { DAY_MS } from '../../base/time/durations.ts';
import { advisoryLocks } from '../../store/advisory-locks.ts';
import type { Database } from '../../store/connect/pool.ts';
import { type Applied, migrate, versionProblem } from '../../store/migrate.ts';
import { forgetMarks, readSelf } from '../../store/queries/cells/cells.ts';
import { type ArchiveFile, readArchive } from './archive-file.ts';
import { listTables, outputOf, reportTable, serverMajor, type TableWatcher } from './backup.ts';
import { type BackupRecord, compareContents, readContents } from './record.ts';
import { BackupError, findTools, runTool, send, type Tools } from './tools.ts';

interface RestoreOrder {
  conninfo: string;
  database: Database;
  path: string;
  /** Keys of the purpose `backups`, one of which must authenticate the file. Null: this installation has no key yet. */
  keys: readonly Buffer[] | null;
  /** Also restores a file that no key authenticates. */
  trustFile: boolean;
  watcher: TableWatcher;
  /** See MigrateOptions. */
  onBlocked: (waitsFor: string) => void;
  signal?: AbortSignal;
}

export interface Restored {
  /** Null: the file is a dump without the record of `weir backup`, so nothing was compared. */
  record: BackupRecord | null;
  /** False: restored only because the file is trusted. */
  isAuthentic: boolean;
  /** What differs from the record, one sentence each. */
  differences: string[];
  /** Its number as a cell; 0: home. */
  number: number;
  /** Numbers of the cells of the installation: none is used before `weir cell update NUMBER --accept-restored`. */
  cells: number[];
  /** Migrations that were applied afterwards. */
  migrated: string[];
  events: number;
}

/** Analyzes Weir's tables with their partitions. A plain `analyze` would also warn about each catalog, since these belong to a superuser. */
const ANALYZE_OWN = `
  do $$
  declare own regclass;
  begin
    for own in
      select oid from pg_class
      where relkind in ('r', 'p') and not relispartition and relnamespace = current_schema()::regnamespace
    loop
      execute format('analyze %s', own);
    end loop;
  end $$`;

/**
 * Restores in one transaction, compares with the record, collects statistics, migrates. Throws BackupError, without a change, if the
 * file is not authentic, damaged or newer than this release, or the schema is not empty.
 */
export async function restore(order: RestoreOrder): Promise<Restored> {
  const archive = await readArchive(order.path, order.keys ?? []);
  try {
    if (!archive.isAuthentic && !order.trustFile) throw notAuthentic(order, archive);
    return await restoreArchive(order, archive);
  } finally {
    await archive.close();
  }
}

/** The file decides what psql runs: SQL, and with a superuser also programs on the machine of the database. */
function notAuthentic({ path, keys }: RestoreOrder, { record }: ArchiveFile): BackupError {
  const reason =
    record === null
      ? 'weir backup did not write it'
      : keys === null
        ? 'this installation has no key yet'
        : 'it was written with another key, or changed afterwards';
  return new BackupError(
    `${path} cannot be authenticated: ${reason}. Nothing was restored`,
    'a backup is code: a restore runs what the file says, as the role of the database, which may run programs on its machine. Give the ' +
      'key of the installation that wrote the file first (SECRETS_KEY, or secrets.key in DATA_DIR; an earlier key as SECRETS_KEY_PREVIOUS). ' +
      'If you are sure that only you could write the file, add --trust-file',
  );
}

async function restoreArchive(order: RestoreOrder, archive: ArchiveFile): Promise<Restored> {
  const { database, path } = order;
  const { record, isAuthentic } = archive;
  const tools = await toolsFor(path, archive, await serverMajor(database));
  const problem = versionProblem(await versionsIn(tools, archive), 'backup');
  if (problem !== null) throw problem;
  await refuseContents(database);
  order.watcher.begin(new Map(Object.entries(record?.contents.tables ?? {})));
  await load(order, archive, tools);
  const contents = await readContents(database.query);
  const differences = record === null ? [] : compareContents(record.contents, contents);
  // Statistics and counts of a large database take minutes.
  await database.query({ text: ANALYZE_OWN, timeoutMs: DAY_MS });
  const events = Object.entries(contents.tables).filter(([name]) => name.startsWith('events_'));
  const migrated = await migrate(database, { stopping: order.signal, onBlocked: order.onBlocked });
  return {
    record,
    number: (await readSelf(database))?.number ?? 0,
    cells: await forgetMarks(database),
    isAuthentic,
    differences,
    migrated,
    events: events.reduce((sum, [, rows]) => sum + rows, 0),
  };
}

/** The first tools that read the archive: those of the version that wrote it, or of a newer one. */
async function toolsFor(path: string, archive: ArchiveFile, major: number): Promise<Tools> {
  let failure: unknown;
  for (const tools of await findTools(major))
    try {
      if ((await listTables(tools, archive)).includes('schema_migrations')) return tools;
      failure = new BackupError(`${path} is not a backup of Weir`);
    } catch (error) {
      failure = error;
    }
  throw failure;
}

/** The applied migrations, read from the archive. */
async function versionsIn(tools: Tools, archive: ArchiveFile): Promise<Applied> {
  const text = await outputOf(tools, ['--data-only', '--table=schema_migrations', '--file=-'], archive);
  const rows = text.matchAll(/^(\d+)\t[^\t\n]*\t[^\t\n]*(?:\t(\d+)$)?/gm);
  return new Map([...rows].map(([, version, from]) => [Number(version), from === undefined ? null : Number(from)]));
}

/**
 * psql runs what pg_restore writes, in one transaction. pg_restore alone cannot check under the lock that the schema is empty, and fails on
 * an older server, which does not know `transaction_timeout`. COMMIT is sent only after pg_restore has succeeded: with --single-transaction
 * psql would commit also when its input ends too early.
 */
async function load({ conninfo, watcher, signal }: RestoreOrder, archive: ArchiveFile, tools: Tools): Promise<void> {
  const onLine = (line: string) => reportTable(line, watcher);
  const flags = ['--no-psqlrc', '--quiet', '--set=ON_ERROR_STOP=1', '--output=/dev/null', '--file=-'];
  await runTool(tools, 'psql', flags, {
    conninfo,
    signal,
    write: async (stdin) => {
      await send(stdin, Buffer.from(BEGIN));
      await runTool(tools, 'pg_restore', ['--no-owner', '--no-privileges', '--verbose', '--file=-'], {
        write: archive.write,
        onLine,
        signal,
        read: (stdout) => passOn(stdout, stdin),
      });
      await send(stdin, Buffer.from('commit;\n'));
    },
  });
}

const hasContents = `
  exists (select from pg_class where relnamespace = current_schema()::regnamespace)
  or exists (select from pg_proc where pronamespace = current_schema()::regnamespace)
  or exists (select from pg_type where typnamespace = current_schema()::regnamespace)`;

async function refuseContents(database: Database): Promise<void> {
  const [row] = await database.query<{ full: boolean }>({ text: `select ${hasContents} as full` });
  if (row!.full)
    throw new BackupError(
      'The database is not empty',
      'restore into a new database, or move this one away first. Nothing was changed',
    );
}

/** A Weir that starts now waits for the lock and finds the restored tables. If one started before, the schema is full: the restore stops. */
const BEGIN = `
  begin;
  select pg_advisory_xact_lock(${advisoryLocks.schema});
  do $$ begin
    if ${hasContents} then raise exception 'the database is not empty'; end if;
  end $$;
`;

/**
 * Events of `source`, the database that was backed up, that `restored` lacks: they arrived after the snapshot. Counts the day of the
 * snapshot, the day before (an event may have waited in a spool), and all later days.
 */
export async function countLater(source: Database, restored: Database, { snapshot_at }: BackupRecord): Promise<number> {
  const [there, here] = await Promise.all(
    [source, restored].map(async ({ query }) => {
      const [row] = await query<{ events: number }>({
        text: `select count(*)::float8 as events from events where received_at >= ($1::timestamptz at time zone 'UTC')::date - 1`,
        values: [snapshot_at],
        timeoutMs: DAY_MS,
      });
      return row!.events;
    }),
  );
  return Math.max(0, there! - here!);
}

/** The preamble, with the settings of the session, is in the first bytes. */
const PREAMBLE_BYTES = 4_096;

/** Passes the script to psql at the speed at which psql reads it. */
async function passOn(stdout: Readable, stdin: Writable): Promise<void> {
  let head: Buffer | null = Buffer.alloc(0);
  for await (const chunk of stdout) {
    let part = chunk as Buffer;
    if (head !== null) {
      head = Buffer.concat([head, part]);
      if (head.length < PREAMBLE_BYTES) continue;
      part = withoutUnknownSettings(head);
      head = null;
    }
    await send(stdin, part);
  }
  if (head !== null) await send(stdin, withoutUnknownSettings(head));
}

function withoutUnknownSettings(head: Buffer): Buffer {
  return Buffer.from(head.toString('latin1').replace(/^SET transaction_timeout = 0;$/m, ''), 'latin1');
}
