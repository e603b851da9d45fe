/** The database that the settings name, ready to be used: embedded or not, the server and the commands come in here. */
import type { Settings } from '../settings/read.ts';
import { describeConninfo, withoutSecrets } from './conninfo.ts';
import { COPY_CONNECTIONS } from './copy-link.ts';
import { joinEmbeddedPostgres } from './embedded/join.ts';
import { migrate } from './migrate.ts';
import { type Database, openDatabase } from './pool.ts';

/** The database cannot be used; the message is fit for people and free of secrets. */
export class DatabaseError extends Error {}

export interface Attached {
  conninfo: string;
  database: Database;
  /** Names of the migrations that were applied on the way. */
  migrated: string[];
  /** Starts an embedded server that was killed; nothing to do when it runs, or for a server that is not ours. */
  revive(): Promise<void>;
  /** Closes the pool; the last user of an embedded server stops it. */
  detach(): Promise<void>;
}

/** Connections beyond the processes' own: the primary, its listener, and commands at the same time. */
const OTHER_CONNECTIONS = 20;
/** What Postgres keeps back for superusers by default. */
const RESERVED_CONNECTIONS = 3;

/** What all parts together may open: each process its COPY connections and its pool, one process more while restarting. */
export function connectionsNeeded(settings: Settings): number {
  return (settings.WORKERS + 1) * (settings.DB_POOL_MAX + COPY_CONNECTIONS) + OTHER_CONNECTIONS;
}

/**
 * Starts or joins the embedded server, or checks the given one; migrates. Throws DatabaseError or EmbeddedPostgresError.
 * @param log progress of the embedded server, for people.
 * @param joinSmaller join a running embedded server that has fewer connections than the settings may open: for commands, whose
 * WORKERS need not be the server's.
 */
export async function attachDatabase(
  settings: Settings,
  log: (line: string) => void,
  { joinSmaller }: { joinSmaller: boolean },
): Promise<Attached> {
  const join = () =>
    joinEmbeddedPostgres({
      dataDir: settings.DATA_DIR,
      maxConnections: connectionsNeeded(settings) + RESERVED_CONNECTIONS,
      joinSmaller,
      log,
    });
  let embedded = settings.database.kind === 'embedded' ? await join() : null;
  const conninfo = embedded?.conninfo ?? (settings.database as { conninfo: string }).conninfo;
  const database = openDatabase(conninfo, { connectionsMax: 2, applicationName: 'weir-primary' });
  const revive = async () => {
    const before = embedded;
    if (before === null) return;
    embedded = await join();
    await before.leave();
  };
  const detach = async () => {
    await database.close();
    await embedded?.leave();
  };
  try {
    return { conninfo, database, migrated: await migrate(database), revive, detach };
  } catch (error) {
    await detach();
    throw new DatabaseError(
      `the database at ${describeConninfo(conninfo)} cannot be used: ${oneLine(withoutSecrets((error as Error).message, conninfo))}; check DATABASE_URL or the POSTGRES_* settings`,
    );
  }
}

/** Refuses a server whose max_connections is less than what the settings may open. Throws DatabaseError. */
export async function checkConnectionBudget(database: Database, settings: Settings): Promise<void> {
  const [row] = await database.query<{ allowed: number }>({
    text: `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as allowed`,
  });
  const needed = connectionsNeeded(settings);
  if (row!.allowed < needed)
    throw new DatabaseError(
      `the database allows ${row!.allowed} connections, but WORKERS=${settings.WORKERS} and DB_POOL_MAX=${settings.DB_POOL_MAX} may open ${needed}; lower one of them or raise max_connections`,
    );
}

/** libpq explains itself over several lines. */
function oneLine(text: string): string {
  return text.trim().replace(/\s+/g, ' ');
}
