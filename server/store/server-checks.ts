/** Checks of a Postgres server: its version, whether it accepts writes, and whether a commit survives a power failure. */
import { advice, type Check, ok, problem } from '../model/check.ts';
import type { Database } from './connect/pool.ts';

/** Values as Postgres reports them. */
interface ServerFacts {
  version: string;
  version_number: number;
  standby: boolean;
  read_only: string;
  may_create: boolean;
  fsync: string;
  synchronous_commit: string;
  full_page_writes: string;
}

export async function readServer({ query }: Pick<Database, 'query'>): Promise<ServerFacts> {
  const [row] = await query<ServerFacts>({
    text: `select current_setting('server_version') as version,
             current_setting('server_version_num')::int as version_number,
             pg_is_in_recovery() as standby,
             current_setting('default_transaction_read_only') as read_only,
             coalesce(has_schema_privilege(current_schema(), 'create'), false) as may_create,
             current_setting('fsync') as fsync,
             current_setting('synchronous_commit') as synchronous_commit,
             current_setting('full_page_writes') as full_page_writes`,
  });
  return row!;
}

export function checkVersion({ version, version_number }: ServerFacts, address: string): Check {
  const finding = `Postgres ${version} answers at ${address}`;
  if (version_number >= 150_000) return ok('database', finding);
  return advice('database', finding, 'upgrade: Weir is tested with 15 and newer');
}

export function checkWritable({ standby, read_only, may_create }: ServerFacts): Check[] {
  if (standby)
    return [
      problem('database', 'the server is a standby and accepts no writes', 'point DATABASE_URL at the primary server'),
    ];
  if (read_only === 'on')
    return [
      problem('database', 'default_transaction_read_only is on', 'alter role … reset default_transaction_read_only'),
    ];
  if (!may_create)
    return [
      problem(
        'database',
        'the database user cannot create tables, and Weir creates partitions every day',
        'grant usage, create on schema public to the user, or make it the owner of the database',
      ),
    ];
  return [];
}

/** The durability that a 202 promises depends on these three settings. */
export function checkDurability(facts: ServerFacts): Check {
  const settings = ['fsync', 'synchronous_commit', 'full_page_writes'] as const;
  const off = settings.filter((setting) => facts[setting] === 'off');
  if (off.length === 0)
    return ok('durability', `${settings.map((setting) => `${setting} ${facts[setting]}`).join(', ')}`);
  return problem(
    'durability',
    `${off.join(' and ')} ${off.length === 1 ? 'is' : 'are'} off: a power failure may lose events that were answered 202`,
    `${off.map((setting) => `alter system set ${setting} = on;`).join(' ')} select pg_reload_conf(); and look for "alter role" or "alter database" settings that turn it off`,
  );
}
