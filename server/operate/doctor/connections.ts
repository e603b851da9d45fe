/** Checks that the database server has enough connections for Weir beside those of other clients. */

import type { Settings } from '../../base/settings/read.ts';
import { type Check, ok, problem, problemOf } from '../../model/check.ts';
import type { Database } from '../../store/connect/pool.ts';
import { checkConnectionBudget, connectionsNeeded, DatabaseError } from '../../store/open.ts';

export async function checkConnections(database: Database, settings: Settings): Promise<Check> {
  const name = 'connections';
  const needed = connectionsNeeded(settings);
  if (settings.database.kind === 'embedded')
    return ok(name, `Weir opens up to ${needed}, and the embedded server is configured to allow them`);
  try {
    await checkConnectionBudget(database, settings);
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error;
    return problemOf(name, error, 'raise max_connections');
  }
  const { max, reserved, others } = await readConnections(database);
  const allowed = max - reserved;
  const left = Math.max(allowed - others, 0);
  if (left >= needed)
    return ok(name, `Weir opens up to ${needed}; the server allows ${allowed}, and other clients use ${others}`);
  return problem(
    name,
    `other clients use ${others} of the ${allowed} connections that the server allows: ${left} are left, and Weir opens up to ${needed}`,
    `raise max_connections to ${needed + others + reserved} or more, lower WORKERS or DB_POOL_MAX, or close connections of other clients: webhook requests that get no connection are answered 503`,
  );
}

interface Connections {
  /** The setting max_connections. */
  max: number;
  /** Reserved for superusers and for pg_use_reserved_connections. */
  reserved: number;
  /** Connections of clients other than the Weir of this machine. */
  others: number;
}

/**
 * Weir's connections are recognized by application name and by the client address of this connection. Without pg_read_all_stats,
 * Postgres hides the address and the backend type of other users' sessions; those count as other clients.
 */
async function readConnections(database: Database): Promise<Connections> {
  const [row] = await database.query<Connections>({
    text: `
      with me as (select client_addr, datid, application_name from pg_stat_activity where pid = pg_backend_pid())
      select current_setting('max_connections')::int as max,
        current_setting('superuser_reserved_connections')::int
          + coalesce(current_setting('reserved_connections', true)::int, 0) as reserved,
        count(*) filter (where not coalesce(
          (a.application_name = me.application_name or a.application_name ~ '^weir(-|$)')
            and a.datid = me.datid and a.client_addr is not distinct from me.client_addr, false))::int as others
      from pg_stat_activity a, me
      where a.usesysid is not null and a.datid is not null and coalesce(a.backend_type, 'client backend') = 'client backend'`,
  });
  return row!;
}
