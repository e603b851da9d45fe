/** Checks that an administrator exists and that the audit log is intact. */

import { weirCommand } from '../../base/command/name.ts';
import type { Settings } from '../../base/settings/read.ts';
import { advice, type Check, ok, problem } from '../../model/check.ts';
import { verifyRecentAudit } from '../../store/audit/verify.ts';
import type { Database } from '../../store/connect/pool.ts';
import { readAuditHead } from '../../store/queries/users/audit.ts';
import { countAdministrators } from '../../store/queries/users/users.ts';

/** Number of newest entries whose hashes are recomputed; `weir audit verify` checks all of them. */
const ENTRIES_VERIFIED_MAX = 1_000;

/** In local mode an administrator signs in with a password; in hosted mode the provider assigns the role, perhaps to no user. */
export async function checkAdministrators(
  database: Database,
  { AUTH_MODE }: Pick<Settings, 'AUTH_MODE'>,
): Promise<Check> {
  const name = 'administrators';
  if (AUTH_MODE === 'hosted') {
    if ((await countAdministrators(database)) > 0) return ok(name, 'the OpenID Connect provider assigns the role');
    return advice(
      name,
      'no user is an administrator',
      `assign the role to a user at the OpenID Connect provider and have that user sign in; or, until the next sign-in: ${weirCommand()} user set-role EMAIL administrator`,
    );
  }
  const [row] = await database.query<{ count: number }>({
    text: `select count(*)::int as count from users
           where role = 'administrator' and disabled_at is null and password_hash is not null`,
  });
  const { count } = row!;
  if (count > 0) return ok(name, count === 1 ? 'one administrator can sign in' : `${count} administrators can sign in`);
  return advice(
    name,
    'no administrator can sign in',
    `open the setup URL that Weir prints at the start, or set ADMIN_EMAIL and ADMIN_PASSWORD and restart, or: ${weirCommand()} user add --email E --role administrator`,
  );
}

/** Checks the newest entries, and the trigger that prevents changes to entries. */
export async function checkAudit(database: Database): Promise<Check> {
  const name = 'audit_log';
  const [trigger] = await database.query<{ state: string }>({
    text: `select tgenabled as state from pg_trigger
           where tgrelid = 'audit_log'::regclass and tgname = 'audit_log_append_only'`,
  });
  if (trigger === undefined || trigger.state === 'D')
    return problem(
      name,
      'its trigger is off: entries can be changed and deleted',
      `alter table audit_log enable trigger audit_log_append_only; then ${weirCommand()} audit verify --head HASH with the last audit_head of the log`,
    );
  const head = await readAuditHead(database);
  if (head === undefined) return ok(name, 'it has no entries yet');
  const verdict = await verifyRecentAudit(database, head.number, ENTRIES_VERIFIED_MAX);
  if (verdict.intact)
    return ok(name, `${head.number} entries; the newest ${Math.min(head.number, ENTRIES_VERIFIED_MAX)} verify`);
  return problem(
    name,
    `it was changed outside Weir: ${verdict.reason}`,
    `${weirCommand()} audit verify reports the first invalid entry; compare with a backup and with audit_head in the log`,
  );
}
