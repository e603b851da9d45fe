/** Checks Weir's tables, the partitions for the days ahead, and that the key decrypts the stored secrets. */
import { weirCommand } from '../../base/command/name.ts';
import type { Settings } from '../../base/settings/read.ts';
import { DAY_MS } from '../../base/time/durations.ts';
import { advice, type Check, conditionCheck, ok, problem, problemOf } from '../../model/check.ts';
import { PARTITIONS_AHEAD_MIN } from '../../model/conditions.ts';
import { filterProblem } from '../../model/filters/expression.ts';
import type { Database } from '../../store/connect/pool.ts';
import { appliedVersions, migrationFiles, newestOf, versionProblem } from '../../store/migrate.ts';
import { countExpiring, countUnarchived } from '../../store/queries/alerts/expiring.ts';
import { readFilters } from '../../store/queries/events/filter.ts';
import { readSealedSecrets } from '../../store/queries/webhooks/secrets.ts';
import { missingPartitions, partitionName, readHorizon } from '../../store/retention/partitions.ts';
import { derivedKeys, type SecretsKeys } from '../../store/secrets/keys.ts';
import { unseal } from '../../store/secrets/seal.ts';
import { checkCells } from './cells.ts';
import { checkCommit } from './commit.ts';
import { checkAdministrators, checkAudit } from './people.ts';

/** Maximum number of ids named in a finding; further ids are only counted. */
const NAMED_MAX = 5;

interface Circumstances {
  /** Connection string of the database. */
  conninfo: string;
  settings: Settings;
  keys: SecretsKeys | null;
  /** Whether Weir is serving. */
  running: boolean;
  nowMs: number;
  /** False: the server accepts no writes, which is reported already. */
  accepts: boolean;
}

export async function checkSchema(
  database: Database,
  { conninfo, settings, keys, running, nowMs, accepts }: Circumstances,
): Promise<Check[]> {
  const applied = await appliedVersions(database);
  if (applied.size === 0) return [ok('migrations', 'the database is empty; the first start creates the schema')];
  const unusable = versionProblem(applied);
  if (unusable !== null) return [problemOf('migrations', unusable, 'run another release')];
  const pending = migrationFiles().filter(({ version }) => !applied.has(version));
  if (pending.length > 0)
    return [
      advice(
        'migrations',
        `not applied yet: ${pending.map(({ name }) => name).join(', ')}`,
        `${weirCommand()} migrate, or restart Weir`,
      ),
    ];
  return [
    ok('migrations', `the schema is at version ${newestOf(applied)}, which this release can serve`),
    await checkPartitions(database, running, nowMs),
    ...(accepts ? await checkCommit(database, nowMs) : []),
    ...(await checkCells({ conninfo, database }, { settings, keys, nowMs })),
    await checkSecrets(database, keys),
    ...(await checkRetention(database, settings, nowMs)),
    ...(await checkFilters(database)),
    await checkAdministrators(database, settings),
    await checkAudit(database),
  ];
}

async function checkPartitions(database: Database, running: boolean, nowMs: number): Promise<Check> {
  const horizon = await readHorizon(database);
  const toMs = Math.max(horizon?.toMs ?? 0, nowMs + PARTITIONS_AHEAD_MIN * DAY_MS);
  // Partitions for the end of the week may not exist yet. All up to the newest one, and those of the next days, must exist.
  const holes = (await missingPartitions(database, nowMs)).filter(
    ({ fromMs }) => fromMs + DAY_MS > nowMs && fromMs < toMs,
  );
  if (horizon !== null && holes.length === 0) {
    const daysAhead = Math.floor((horizon.toMs - nowMs) / DAY_MS);
    return ok(
      'partitions',
      `created up to ${partitionName('events', horizon.toMs - DAY_MS)}, ${daysAhead} days ahead, none missing`,
    );
  }
  const names = holes.map(({ name }) => name);
  const finding = `missing: ${names.slice(0, NAMED_MAX).join(', ')}${names.length > NAMED_MAX ? ` and ${names.length - NAMED_MAX} more` : ''}; events of these days cannot be stored`;
  if (!running) return advice('partitions', finding, 'start Weir, which creates them');
  return problem('partitions', finding, 'look for partitions_failed in the log: it contains the reason');
}

/** Undelivered events that are about to be removed, and days that could not be archived. */
async function checkRetention(database: Database, settings: Settings, nowMs: number): Promise<Check[]> {
  const retention = { retentionDays: settings.RETENTION_DAYS, keepUndeliveredDays: settings.KEEP_UNDELIVERED_DAYS };
  const expiring = await countExpiring(database, retention, nowMs);
  const unarchived = await countUnarchived(database, retention, nowMs);
  return [
    expiring === 0
      ? ok('undelivered', 'retention removes no undelivered event within the next day')
      : conditionCheck('undelivered', 'expiring', expiring),
    ...(unarchived === 0 ? [] : [conditionCheck('archive', 'archive', unarchived)]),
  ];
}

/** Decrypts every stored secret and discards the result at once. */
async function checkSecrets(database: Database, keys: SecretsKeys | null): Promise<Check> {
  const name = 'stored_secrets';
  const rows = await readSealedSecrets(database);
  if (rows.length === 0) return ok(name, 'no webhook has a secret yet');
  const derived = derivedKeys(keys ?? [], 'webhook-secrets');
  const opens = (row: (typeof rows)[number], candidates: Buffer[]) =>
    unseal(row.sealed, candidates, row.webhookId) !== null;
  const lost = rows.filter((row) => !opens(row, derived));
  if (lost.length > 0)
    return problem(
      name,
      `${lost.length} of ${rows.length} webhook secrets cannot be decrypted with any configured key (${named(lost)})`,
      `set the SECRETS_KEY that encrypted them, as SECRETS_KEY_PREVIOUS if there is a newer key; or set new secrets: ${weirCommand()} webhook rotate ID`,
    );
  const old = rows.filter((row) => !opens(row, derived.slice(0, 1)));
  if (old.length > 0)
    return advice(
      name,
      `${old.length} of ${rows.length} webhook secrets still need SECRETS_KEY_PREVIOUS (${named(old)})`,
      `run ${weirCommand()} keys rotate, which re-encrypts them; keep SECRETS_KEY_PREVIOUS until then`,
    );
  return ok(name, `all webhook secrets (${rows.length}) can be decrypted with the key`);
}

function named(rows: readonly { webhookId: string }[]): string {
  const ids = [...new Set(rows.map((row) => row.webhookId))];
  return ids.length > NAMED_MAX
    ? `${ids.slice(0, NAMED_MAX).join(', ')} and ${ids.length - NAMED_MAX} more`
    : ids.join(', ');
}

/** Filters compiled by one run. */
const FILTERS_MAX = 10_000;

/** Checks that the filters of subscriptions are valid in this version and not suspended. */
export async function checkFilters(database: Database): Promise<Check[]> {
  const filters = await readFilters(database, null, FILTERS_MAX);
  if (filters.length === 0) return [];
  const broken = filters.flatMap((one) => {
    const fault = filterProblem(one.filter);
    if (fault !== null) return [{ ...one, detail: `not valid in this version (${fault})` }];
    return one.suspendedUntil === null
      ? []
      : [{ ...one, detail: `suspended until ${one.suspendedUntil} (it took too long on several events)` }];
  });
  const [first] = broken;
  if (first === undefined) return [ok('filters', `${filters.length} filters of subscriptions are valid`)];
  const others = broken.length === 1 ? '' : `, and ${broken.length - 1} more filters`;
  return [
    problem(
      'filters',
      `the filter of agent ${first.agentName} on webhook ${first.webhookName} is ${first.detail}${others}; all events are delivered`,
      `change it on the page of the agent, or: weir agent subscribe ${first.agentId} --webhook ${first.webhookId} --filter EXPRESSION`,
    ),
  ];
}
