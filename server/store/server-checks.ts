/** Checks of a Postgres server: version, encoding, sessions, whether it accepts writes, and whether a commit survives a power failure. */
import { advice, broken, type Finding, ok } from '../model/check.ts';
import { OperatorError } from '../model/fault.ts';
import type { DatabasePool, Queries, Query } from './connect/pool.ts';
import { WAL_POOL_MB } from './embedded/settings.ts';

/** Values as Postgres reports them. */
export interface ServerFacts {
  version: string;
  version_number: number;
  encoding: string;
  standby: boolean;
  read_only: string;
  may_create: boolean;
  fsync: string;
  synchronous_commit: string;
  full_page_writes: string;
  min_wal_mb: number;
}

/** Reads the facts that the checks need. Rejects with DatabaseUnavailable. */
export async function readServer({ query }: Queries): Promise<ServerFacts> {
  const [row] = await query<ServerFacts>({
    text: `select current_setting('server_version') as version,
             current_setting('server_version_num')::int as version_number,
             current_setting('server_encoding') as encoding,
             pg_is_in_recovery() as standby,
             current_setting('default_transaction_read_only') as read_only,
             coalesce(has_schema_privilege(current_schema(), 'create'), false) as may_create,
             current_setting('fsync') as fsync,
             current_setting('synchronous_commit') as synchronous_commit,
             current_setting('full_page_writes') as full_page_writes,
             pg_size_bytes(current_setting('min_wal_size')) / 1048576::float8 as min_wal_mb`,
  });
  return row!;
}

/** Checks the version of Postgres. @param address of the server, for the finding */
export function checkVersion({ version, version_number }: ServerFacts, address: string): Finding {
  const finding = `Postgres ${version} answers at ${address}`;
  return version_number >= 150_000 ? ok(finding) : advice(finding, 'upgrade: Weir is tested with 15 and newer');
}

/** SQL_ASCII keeps the bytes of UTF-8 as they are. Every other encoding lacks characters that events have. */
const ENCODINGS: ReadonlySet<string> = new Set(['UTF8', 'SQL_ASCII']);

/** Checks what only another database, or another connection to it, can fix: encoding and sessions. Null: it fits. */
export async function checkFit(
  database: Pick<DatabasePool, 'query' | 'listening'>,
  { encoding }: ServerFacts,
): Promise<Finding | null> {
  if (!ENCODINGS.has(encoding))
    return broken(
      `the encoding of the database is ${encoding}, which cannot hold every event`,
      `create another one: create database weir owner weir encoding 'UTF8' template template0`,
    );
  if (!(await sharesSessions(database))) return null;
  return broken(
    'a pooler lets several connections share one session of Postgres, and Weir needs one for each connection',
    'set pool_mode = session for this database in PgBouncer, or connect to Postgres without it',
  );
}

/** Runs checkFit. Rejects with OperatorError if the database does not fit. */
export async function requireFit(database: DatabasePool): Promise<void> {
  const found = await checkFit(database, await readServer(database));
  if (found !== null) throw new OperatorError(found.finding, found.fix!);
}

const SESSION_PROBES = 3;

/** Whether two open connections share a session, or one has several: PgBouncer with pool_mode transaction or statement. */
function sharesSessions({ query, listening }: Pick<DatabasePool, 'query' | 'listening'>): Promise<boolean> {
  const sessionOf = async (run: Query) =>
    (await run<{ pid: number }>({ text: 'select pg_backend_pid() as pid' }))[0]!.pid;
  return listening(
    'weir_sessions',
    () => {},
    async (other) => {
      const ofOther = new Set<number>();
      const ofPool = new Set<number>();
      for (let i = 0; i < SESSION_PROBES; i++) {
        ofOther.add(await sessionOf(other));
        ofPool.add(await sessionOf(query));
      }
      return ofOther.size > 1 || [...ofOther].some((pid) => ofPool.has(pid));
    },
  );
}

/** Checks whether the server accepts writes and new tables. Null: it does. */
export function checkWritable({ standby, read_only, may_create }: ServerFacts): Finding | null {
  if (standby)
    return broken('the server is a standby and accepts no writes', 'point DATABASE_URL at the primary server');
  if (read_only === 'on')
    return broken('default_transaction_read_only is on', 'alter role … reset default_transaction_read_only');
  if (may_create) return null;
  return broken(
    'the database user cannot create tables, and Weir creates partitions every day',
    'grant usage, create on schema public to the user, or make it the owner of the database',
  );
}

/** The durability that a 202 promises depends on these settings. Weir turns synchronous_commit on where it is off. */
export function checkDurability(facts: ServerFacts): Finding {
  const settings = ['fsync', 'synchronous_commit', 'full_page_writes'] as const;
  const off = settings.filter((setting) => facts[setting] === 'off');
  if (off.length === 0) return ok(`${settings.map((setting) => `${setting} ${facts[setting]}`).join(', ')}`);
  return broken(
    `${off.join(' and ')} ${off.length === 1 ? 'is' : 'are'} off: a power failure may lose events that were answered 202`,
    turnOn(off),
  );
}

/** SQL that turns settings of the server on. */
export function turnOn(settings: readonly string[]): string {
  return `${settings.map((setting) => `alter system set ${setting} = on;`).join(' ')} select pg_reload_conf();`;
}

/** A server keeps the WAL files up to min_wal_size to use them again. While it makes one, every commit waits. */
export function checkWal({ min_wal_mb }: ServerFacts): Finding {
  const finding = `Postgres keeps ${min_wal_mb} MB of WAL files to use them again (min_wal_size)`;
  if (min_wal_mb >= WAL_POOL_MB) return ok(finding);
  return advice(
    `${finding}: when the rate rises it makes new ones, and commits wait for each, some 100 ms`,
    `where the disk has the room: alter system set min_wal_size = '${WAL_POOL_MB / 1024}GB'; alter system set max_wal_size = '4GB'; select pg_reload_conf();`,
  );
}
