/** Checks of what is in Weir's tables: partitions, commits, secrets, retention, filters, jobs, alerts, administrators and the audit log. */
import { weirCommand } from '../../base/command/name.ts';
import { checkedAddresses } from '../../base/net/checked-address.ts';
import type { Settings } from '../../base/settings/read.ts';
import { DAY_MS } from '../../base/time/durations.ts';
import { conditionFinding } from '../../manage/conditions/describe.ts';
import { filterConditions, readRetentionConditions } from '../../manage/conditions/read.ts';
import { advice, broken, type CheckTable, ok } from '../../model/check.ts';
import { PARTITIONS_AHEAD_MIN } from '../../model/conditions.ts';
import { verifyRecentAudit } from '../../store/audit/verify.ts';
import type { DatabasePool } from '../../store/connect/pool.ts';
import type { Applied } from '../../store/migrate.ts';
import { readFilters } from '../../store/queries/agents/filters.ts';
import { findLastAttempt } from '../../store/queries/alerts/alerts.ts';
import { readNames } from '../../store/queries/names.ts';
import { readAuditHead } from '../../store/queries/users/audit.ts';
import { countAdministrators } from '../../store/queries/users/users.ts';
import { sealedSecrets } from '../../store/queries/webhooks/secrets.ts';
import { missingPartitions, partitionName, readHorizon } from '../../store/retention/partitions.ts';
import { derivedKeys, type SecretsKeys } from '../../store/secrets/keys.ts';
import { unseal } from '../../store/secrets/seal.ts';
import { checkWritable, type ServerFacts } from '../../store/server-checks.ts';
import { checkCells, tryCommit } from './cells.ts';

export interface Circumstances {
  settings: Settings;
  /** Null when there is no usable key. */
  keys: SecretsKeys | null;
  /** Whether Weir is serving. */
  running: boolean;
  nowMs: () => number;
}

/** What is known of a database that answers. */
export interface Reached extends Circumstances {
  conninfo: string;
  database: DatabasePool;
  facts: ServerFacts;
  applied: Applied;
}

/** Maximum number of ids, partitions, tables or agents named in a finding; further ones are only counted. */
const NAMED_MAX = 5;
/** Filters compiled by one run. */
const FILTERS_MAX = 10_000;
/** A job whose last batch is older than this makes no progress: batches take milliseconds, and pauses follow the rate. */
const JOB_STILL_SECONDS = 300;
/** Number of newest entries whose hashes are recomputed; `weir audit verify` checks all of them. */
const ENTRIES_VERIFIED_MAX = 1_000;

export const schemaChecks = {
  async partitions({ database, running, nowMs: now }) {
    const nowMs = now();
    const horizon = await readHorizon(database);
    const toMs = Math.max(horizon?.toMs ?? 0, nowMs + PARTITIONS_AHEAD_MIN * DAY_MS);
    // Partitions for the end of the week may not exist yet. All up to the newest one, and those of the next days, must exist.
    const holes = (await missingPartitions(database, nowMs)).filter(
      ({ fromMs }) => fromMs + DAY_MS > nowMs && fromMs < toMs,
    );
    if (horizon !== null && holes.length === 0) {
      const daysAhead = Math.floor((horizon.toMs - nowMs) / DAY_MS);
      return ok(
        `created up to ${partitionName('events', horizon.toMs - DAY_MS)}, ${daysAhead} days ahead, none missing`,
      );
    }
    const finding = `missing: ${listed(holes.map(({ name }) => name))}; events of these days cannot be stored`;
    if (!running) return advice(finding, 'start Weir, which creates them');
    return broken(finding, 'look for partitions_failed in the log: it contains the reason');
  },
  /** A server that accepts no writes is reported already. */
  commit: async ({ database, facts, nowMs }) =>
    checkWritable(facts) === null ? await tryCommit(database, nowMs()) : null,
  cell: (reached) => checkCells(reached),
  /** Decrypts every stored secret and discards the result at once. */
  async stored_secrets({ database, keys }) {
    const rows: { webhookId: string; sealed: Buffer }[] = [];
    for await (const row of sealedSecrets(database)) rows.push(row);
    if (rows.length === 0) return ok('no webhook has a secret yet');
    const derived = derivedKeys(keys ?? [], 'webhook-secrets');
    const not = (candidates: Buffer[]) =>
      rows.filter(({ sealed, webhookId }) => unseal(sealed, candidates, webhookId) === null);
    const [lost, old] = [not(derived), not(derived.slice(0, 1))];
    const ids = [...new Set((lost.length > 0 ? lost : old).map(({ webhookId }) => webhookId))];
    const names = await readNames(database, 'webhooks', ids);
    const named = listed(ids.map((id) => `${names.find((webhook) => webhook.id === id)?.name ?? 'webhook'} ${id}`));
    if (lost.length > 0)
      return broken(
        `${lost.length} of ${rows.length} webhook secrets cannot be decrypted with any configured key (${named})`,
        `set the SECRETS_KEY that encrypted them, as SECRETS_KEY_PREVIOUS if there is a newer key; or set new secrets: ${weirCommand()} webhook rotate ID`,
      );
    if (old.length > 0)
      return advice(
        `${old.length} of ${rows.length} webhook secrets still need SECRETS_KEY_PREVIOUS (${named})`,
        `run ${weirCommand()} keys rotate, which re-encrypts them; keep SECRETS_KEY_PREVIOUS until then`,
      );
    return ok(`all webhook secrets (${rows.length}) can be decrypted with the key`);
  },
  async undelivered({ database, settings, nowMs }) {
    const { RETENTION_DAYS: retentionDays, KEEP_UNDELIVERED_DAYS: keepUndeliveredDays } = settings;
    const held = await readRetentionConditions(database, { retentionDays, keepUndeliveredDays }, nowMs());
    const found = held.map((one) => ({ ...conditionFinding(one), ...(one.kind === 'archive' && { name: 'archive' }) }));
    if (held.some(({ kind }) => kind === 'expiring')) return found;
    return [ok('retention removes no undelivered event within the next day'), ...found];
  },
  async filters({ database }) {
    const filters = await readFilters(database, null, FILTERS_MAX);
    const held = filterConditions(filters);
    if (held.length > 0) return held.slice(0, NAMED_MAX).map(conditionFinding);
    return filters.length === 0 ? null : ok(`the filters of subscriptions (${filters.length}) are valid`);
  },
  /** The oldest unfinished job must make progress; the others wait for it. */
  async jobs({ database }) {
    const [job] = await database.query<{ id: string; seconds: number }>({
      text: `
        select id, extract(epoch from now() - updated_at)::float8 as seconds from jobs
        where state in ('queued', 'running') order by created_at, id limit 1`,
    });
    if (job === undefined || job.seconds <= JOB_STILL_SECONDS) return null;
    return advice(
      `job ${job.id} has made no progress for ${Math.round(job.seconds / 60)} minutes`,
      `start Weir, or look for jobs_paused and job_failed in its log; weir job cancel ${job.id} ends it`,
    );
  },
  /** In local mode an administrator signs in with a password; in hosted mode the provider assigns the role, perhaps to no user. */
  async administrators({ database, settings: { AUTH_MODE } }) {
    if (AUTH_MODE === 'hosted') {
      if ((await countAdministrators(database)) > 0) return ok('the OpenID Connect provider assigns the role');
      return advice(
        'no user is an administrator',
        `assign the role to a user at the OpenID Connect provider and have that user sign in; or, until the next sign-in: ${weirCommand()} user set-role EMAIL administrator`,
      );
    }
    const [row] = await database.query<{ count: number }>({
      text: `select count(*)::int as count from users
             where role = 'administrator' and disabled_at is null and password_hash is not null`,
    });
    const { count } = row!;
    if (count > 0) return ok(count === 1 ? 'one administrator can sign in' : `${count} administrators can sign in`);
    return advice(
      'no administrator can sign in',
      `open the setup URL that Weir prints at the start, or set ADMIN_EMAIL and ADMIN_PASSWORD and restart, or: ${weirCommand()} user add --email E --role administrator`,
    );
  },
  /** The newest entries, and the trigger that prevents changes to entries. */
  async audit_log({ database }) {
    const [trigger] = await database.query<{ state: string }>({
      text: `select tgenabled as state from pg_trigger
             where tgrelid = 'audit_log'::regclass and tgname = 'audit_log_append_only'`,
    });
    if (trigger === undefined || trigger.state === 'D')
      return broken(
        'its trigger is off: entries can be changed and deleted',
        `alter table audit_log enable trigger audit_log_append_only; then ${weirCommand()} audit verify --head HASH with the last audit_head of the log`,
      );
    const head = await readAuditHead(database);
    if (head === undefined) return ok('it has no entries yet');
    const verdict = await verifyRecentAudit(database, head.number, ENTRIES_VERIFIED_MAX);
    if (verdict.intact)
      return ok(`${head.number} entries; the newest ${Math.min(head.number, ENTRIES_VERIFIED_MAX)} verify`);
    return broken(
      `it was changed outside Weir: ${verdict.reason}`,
      `${weirCommand()} audit verify reports the first invalid entry; compare with a backup and with audit_head in the log`,
    );
  },
  /** Whether requests to ALERT_URL can be sent and the latest one was. Sends none. */
  async alerts({ database, settings: { ALERT_URL, ALERT_SECRET, ALERT_PRIVATE_NETWORKS } }) {
    if (ALERT_URL === undefined) return ok('ALERT_URL is unset: alerts are shown, and not sent');
    const { host, hostname } = new URL(ALERT_URL);
    const sendTest = `run: ${weirCommand()} alert test`;
    const refused = await checkedAddresses(hostname, ALERT_PRIVATE_NETWORKS === 'allow').then(
      () => null,
      (error: Error) => error.message,
    );
    if (refused !== null)
      return broken(
        `alerts cannot be sent to ${host}: ${refused}`,
        `correct ALERT_URL or ALERT_PRIVATE_NETWORKS, then ${sendTest}`,
      );
    const last = await findLastAttempt(database);
    if (last !== undefined && last.state !== 'sent' && last.last_error !== null)
      return broken(`the latest request to ${host} failed: ${last.last_error}`, sendTest);
    if (ALERT_SECRET !== undefined) return ok(`alerts are sent to ${host}`);
    return advice(
      `requests to ${host} are not signed`,
      'set ALERT_SECRET if the receiver can verify Standard Webhooks: echo whsec_$(openssl rand -base64 32)',
    );
  },
} satisfies CheckTable<Reached>;

/** The first names, and the number of the others. */
export function listed(names: readonly string[]): string {
  const more = names.length > NAMED_MAX ? ` and ${names.length - NAMED_MAX} more` : '';
  return `${names.slice(0, NAMED_MAX).join(', ')}${more}`;
}
