/** GET /healthz and /readyz. */
import { z } from 'zod';
import { pendingMigrations } from './db/migrate.ts';
import type { Database } from './db/pool.ts';
import type { Exchange } from './http/exchange.ts';

const states = z.enum(['ok', 'failing', 'unknown', 'degraded']);
const readiness = z.object({
  status: z.enum(['ready', 'not_ready']),
  checks: z.object({
    database: states,
    migrations: states,
    threads: states,
    draining: states,
    rate_limit_store: states,
    secrets: states,
  }),
});

/** For the OpenAPI document. */
export const healthDescriptions = {
  live: { answers: { 200: z.object({ status: z.literal('ok') }) }, problems: [] },
  ready: { answers: { 200: readiness, 503: readiness }, problems: [] },
};

interface ReadinessParts {
  database: Database;
  /** The commit connection is up. */
  canCommit: () => boolean;
  threads: () => number;
  draining: () => boolean;
  rateLimitStore: () => 'ok' | 'degraded';
  /** Every stored webhook secret opens. */
  secretsReadable: () => boolean;
  nowMs: () => number;
}

/** A database check answers for this long, so that probes cost nothing. */
const CHECK_VALID_MS = 1_000;
const CHECK_TIMEOUT_MS = 2_000;

/** Alive as soon as the event loop turns. */
export function alive(exchange: Exchange): void {
  exchange.json(200, { status: 'ok' });
}

/** 200 when a webhook sent now would be stored, else 503 with the failing check named. */
export function createReady(parts: ReadinessParts): (exchange: Exchange) => Promise<void> {
  const migrations = cached(parts.nowMs, () => checkMigrations(parts.database));
  return async (exchange) => {
    const schema = await migrations();
    const checks = {
      database: schema === 'unreachable' || !parts.canCommit() ? 'failing' : 'ok',
      migrations: schema === 'pending' ? 'failing' : schema === 'unreachable' ? 'unknown' : 'ok',
      threads: parts.threads() > 0 ? 'ok' : 'failing',
      draining: parts.draining() ? 'failing' : 'ok',
      rate_limit_store: parts.rateLimitStore(),
      secrets: parts.secretsReadable() ? 'ok' : 'degraded',
    };
    const ready = !Object.values(checks).includes('failing');
    if (!ready) exchange.setHeader('retry-after', '1');
    exchange.json(ready ? 200 : 503, { status: ready ? 'ready' : 'not_ready', checks });
  };
}

type SchemaState = 'ok' | 'pending' | 'unreachable';

async function checkMigrations(database: Database): Promise<SchemaState> {
  const timeout = new Promise<SchemaState>((resolve) => setTimeout(resolve, CHECK_TIMEOUT_MS, 'unreachable').unref());
  const check = pendingMigrations(database).then(
    (pending): SchemaState => (pending.length === 0 ? 'ok' : 'pending'),
    (): SchemaState => 'unreachable',
  );
  return Promise.race([check, timeout]);
}

/** One check at a time, whose answer holds for CHECK_VALID_MS. */
function cached<T>(nowMs: () => number, check: () => Promise<T>): () => Promise<T> {
  let startedMs = Number.NEGATIVE_INFINITY;
  let answer: Promise<T>;
  return () => {
    if (nowMs() - startedMs >= CHECK_VALID_MS) {
      startedMs = nowMs();
      answer = check();
    }
    return answer;
  };
}
