/** GET /healthz and /readyz. */
import { z } from 'zod';
import type { Exchange } from '../../../base/http/exchange.ts';
import { SharedCheck } from '../../../base/time/shared-check.ts';
import type { DiskState } from '../../../model/machines.ts';
import type { CommitFailure } from '../../../store/commit-probe.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { migrationFiles, pendingMigrations } from '../../../store/migrate.ts';
import { explainCommitFailure } from '../../conditions/commit-failure.ts';

const state = (of: string) => z.enum(['ok', 'failing', 'unknown', 'degraded', 'spooling', 'migrating']).describe(of);
const readiness = z.object({
  status: z.enum(['ready', 'not_ready']).describe('ready: an event sent now would be stored'),
  checks: z
    .object({
      database: state('whether commits succeed; spooling: they do not, and events are written to the spool'),
      migrations: state('whether the schema fits this release; migrating: the start is changing it'),
      threads: state('HMAC threads'),
      cells: state(
        'degraded: some cells do not answer or store nothing (cells_away), and their webhooks are refused or spooled; absent without cells',
      ).optional(),
      draining: state('failing: this process is stopping'),
      rate_limit_store: state(
        'degraded: requests are allowed without being counted; failing: the start waits for the store',
      ),
      secrets: state('degraded: no key decrypts some stored webhook secrets'),
    })
    .describe('state of each check'),
  database_failure: z
    .string()
    .optional()
    .describe('why events cannot be stored, about Postgres: "its disk is full"; absent while they can'),
  cells_away: z.array(z.int()).optional().describe('numbers of the cells that do not answer, or store nothing'),
});

/** For the OpenAPI document. */
export const healthDescriptions = {
  live: { answers: { 200: z.object({ status: z.literal('ok').describe('the process is alive') }) }, problems: [] },
  ready: { answers: { 200: readiness, 503: readiness }, problems: [] },
};

/** What a start waits for while its processes listen: they answer, but do not use the database. */
export type StartWait = 'database' | 'migrations' | 'rate_limit_store';

interface ReadinessParts {
  database: Database;
  /** Why an event received now would not be stored; null: it would be. Resolves within a second. */
  commitFailure: () => Promise<CommitFailure | null>;
  disks: () => readonly DiskState[];
  /** Home first. */
  cells: () => readonly { number: number; trouble: string | null }[];
  /** True while another cell than home takes events of known webhooks. */
  othersCommit: () => boolean;
  /** True if an event that cannot be committed would be spooled. Does not query the database. */
  spools: () => Promise<boolean>;
  threads: () => number;
  draining: () => boolean;
  /** What the start waits for; null when it is done. */
  awaited: () => StartWait | null;
  rateLimitStore: () => 'ok' | 'degraded';
  /** True if every stored webhook secret can be decrypted. */
  secretsReadable: () => boolean;
  nowMs: () => number;
}

/** How long a schema state stays valid, and how long a request waits for it. */
const SCHEMA_VALID_MS = 1_000;
const SCHEMA_PATIENCE_MS = 800;
/** With less free space, the embedded Postgres does not start. */
const DISK_FULL_BYTES = 2 ** 25;

/** GET /healthz: 200 whenever the event loop runs. */
export function alive(exchange: Exchange): void {
  exchange.json(200, { status: 'ok' });
}

/** GET /readyz: 200 if an event sent now would be stored, else 503 naming the failing check. Answers within a second. */
export function createReady(parts: ReadinessParts): (exchange: Exchange) => Promise<void> {
  const files = migrationFiles();
  const migrations = new SharedCheck<SchemaState>({
    ask: async () => ((await pendingMigrations(parts.database, files)).length === 0 ? 'ok' : 'pending'),
    validMs: () => SCHEMA_VALID_MS,
    patienceMs: SCHEMA_PATIENCE_MS,
    late: 'unreachable',
    nowMs: parts.nowMs,
  });
  return async (exchange) => {
    const [schema, failure] = await Promise.all([migrations.answer(), parts.commitFailure()]);
    const stores = schema !== 'unreachable' && failure === null;
    const awaited = parts.awaited();
    // The database answers, but the start has not checked all of it.
    const unchecked = awaited === 'migrations' || awaited === 'rate_limit_store';
    const unstored = async () => {
      if (await parts.spools()) return 'spooling';
      if (unchecked) return 'unknown';
      return parts.othersCommit() ? 'degraded' : 'failing';
    };
    const cells = parts.cells();
    const away = cells.filter((cell) => cell.trouble !== null);
    const checks = {
      database: stores ? 'ok' : await unstored(),
      migrations: awaited === 'migrations' ? 'migrating' : schemaChecks[schema],
      threads: parts.threads() > 0 ? 'ok' : 'failing',
      ...(cells.length > 1 ? { cells: away.length > 0 ? 'degraded' : 'ok' } : {}),
      draining: parts.draining() ? 'failing' : 'ok',
      rate_limit_store: awaited === 'rate_limit_store' ? 'failing' : parts.rateLimitStore(),
      secrets: parts.secretsReadable() ? 'ok' : 'degraded',
    };
    const ready = !Object.values(checks).includes('failing') && (!unchecked || checks.database === 'spooling');
    if (!ready) exchange.setHeader('retry-after', '1');
    exchange.json(ready ? 200 : 503, {
      status: ready ? 'ready' : 'not_ready',
      checks,
      ...(failure === null || unchecked ? {} : { database_failure: causeOf(failure, parts.disks()) }),
      ...(away.length > 0 ? { cells_away: away.map(({ number }) => number) } : {}),
    });
  };
}

/** Why commits fail. A server that cannot start gives no reason: if the disk of the embedded server is full, that is the reason. */
function causeOf(failure: CommitFailure, disks: readonly DiskState[]): string {
  const isFull = disks.some(({ place, free_bytes }) => place === 'postgres' && free_bytes < DISK_FULL_BYTES);
  return explainCommitFailure(failure.sqlState === null && isFull ? { ...failure, sqlState: '53100' } : failure)
    .finding;
}

type SchemaState = 'ok' | 'pending' | 'unreachable';

const schemaChecks = { ok: 'ok', pending: 'failing', unreachable: 'unknown' } as const satisfies Record<
  SchemaState,
  string
>;
