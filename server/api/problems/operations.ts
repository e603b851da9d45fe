/** /api/v1/problems: what is wrong now and needs a person. */
import { z } from 'zod';
import type { Database } from '../../db/pool.ts';
import { readAgentActivity } from '../../db/queries/agent-activity.ts';
import { countExpiring, countUnarchived } from '../../db/queries/expiring.ts';
import { readFilters, type StoredFilter } from '../../db/queries/filter-events.ts';
import {
  readNamesOfAgents,
  readOverdueWebhooks,
  readRefusedRequests,
  readSilentWebhooks,
} from '../../db/queries/problem-signs.ts';
import { filterProblem } from '../../filters/expression.ts';
import type { History } from '../../live/counters.ts';
import { recordId, timeOf } from '../../resources/fields.ts';
import type { Settings } from '../../settings/read.ts';
import { done, operation } from '../operation.ts';
import { listSchema } from '../paging.ts';

/** Fewer rejections in an hour are strays: a scanner, a person who tries. */
const REJECTED_MIN = 5;
/** Rate-limited requests in an hour, and their share of all requests of the webhook: bursts now and then are what the limit is for. */
const LIMITED_MIN = 20;
const LIMITED_SHARE_MIN = 0.1;
/** How long a list read from the history is reused by a process. The silence of a webhook needs a week of rows. */
const REFUSED_VALID_MS = 5_000;
const SILENT_VALID_MS = 60_000;
const RETENTION_VALID_MS = 60_000;
const FILTERS_VALID_MS = 60_000;
/** Filters that are checked. weir doctor checks more. */
const FILTERS_MAX = 2_000;

const kinds = [
  'process',
  'rate_limits',
  'dead_letters',
  'pending',
  'rejections',
  'limited',
  'silent',
  'filter',
  'expiring',
  'archive',
] as const;

export const problemSchema = z.object({
  kind: z
    .enum(kinds)
    .describe(
      `process: does not respond; rate_limits: the store does not answer, so requests are not counted; dead_letters: of an agent; pending: the oldest delivery of an agent waits for longer than ALERT_PENDING_SECONDS; rejections: at least ${REJECTED_MIN} of a webhook in the last hour; limited: at least ${LIMITED_MIN} and ${LIMITED_SHARE_MIN * 100} % of the requests of a webhook in the last hour; silent: a webhook has no event for its expect_every_seconds or, without it, for twice its longest pause of the last seven days; filter: filters of an agent are not valid in this version, or suspended because they took too long, so that all events are delivered; expiring: retention removes pending or leased deliveries within a day; archive: days that could not be written to ARCHIVE_DIR`,
    ),
  webhook_id: recordId.nullable().describe('the webhook; null: none'),
  agent_id: recordId.nullable().describe('the agent; null: none'),
  name: z.string().nullable().describe('name of the webhook or agent, or process id'),
  count: z
    .number()
    .int()
    .nullable()
    .describe('dead letters, requests, filters, deliveries or tables; null: nothing is counted'),
  expect_every_seconds: z.number().int().nullable().describe('of a silent webhook; null: it has none'),
  since: timeOf('when it began: last event, or start of the wait').nullable().describe('null: unknown'),
});

type FoundProblem = z.output<typeof problemSchema>;

interface ProblemParts {
  settings: Pick<Settings, 'RETENTION_DAYS' | 'KEEP_UNDELIVERED_DAYS' | 'ALERT_PENDING_SECONDS'>;
  database: Database;
  /** The last minutes of all processes of this machine. */
  history: History;
}

export function problemOperations({ settings, database, history }: ProblemParts) {
  const retention = { retentionDays: settings.RETENTION_DAYS, keepUndeliveredDays: settings.KEEP_UNDELIVERED_DAYS };
  const refused = keptFor(REFUSED_VALID_MS, () => readRefusedRequests(database, Date.now()));
  const silent = keptFor(SILENT_VALID_MS, () => readSilentWebhooks(database));
  const filters = keptFor(FILTERS_VALID_MS, () => readFilters(database, null, FILTERS_MAX));
  const expiring = keptFor(RETENTION_VALID_MS, () => countExpiring(database, retention, Date.now()));
  const unarchived = keptFor(RETENTION_VALID_MS, () => countUnarchived(database, retention, Date.now()));
  return {
    listProblems: operation({
      answers: { 200: listSchema(problemSchema) },
      handle: async () => {
        const [agents, requests, silentWebhooks, overdueWebhooks, stored, leaving, waitingDays] = await Promise.all([
          readAgentActivity(database, null),
          refused(),
          silent(),
          readOverdueWebhooks(database, Date.now()),
          filters(),
          expiring(),
          unarchived(),
        ]);
        const late = Date.now() - settings.ALERT_PENDING_SECONDS * 1_000;
        const dead = agents.filter((agent) => agent.dead > 0);
        const waiting = agents.filter(({ waiting_since: since }) => since !== null && Date.parse(since) < late);
        const names = await readNamesOfAgents(database, [...new Set([...dead, ...waiting].map((one) => one.agent_id))]);
        const ofAgent = (kind: 'dead_letters' | 'pending', id: string, more: Partial<FoundProblem>) =>
          found(kind, { agent_id: id, name: names.get(id) ?? id, ...more });
        return done(200, {
          items: [
            ...processProblems(history),
            ...dead.map((agent) => ofAgent('dead_letters', agent.agent_id, { count: agent.dead })),
            ...waiting.map((agent) => ofAgent('pending', agent.agent_id, { since: agent.waiting_since })),
            ...requests
              .filter(({ rejected }) => rejected >= REJECTED_MIN)
              .map(({ rejected, ...webhook }) => found('rejections', { ...pick(webhook), count: rejected })),
            ...requests
              .filter(({ accepted, rejected, limited }) => isLimited(limited, accepted + rejected + limited))
              .map(({ limited, ...webhook }) => found('limited', { ...pick(webhook), count: limited })),
            ...filterProblems(stored),
            ...(leaving > 0 ? [found('expiring', { count: leaving })] : []),
            ...(waitingDays > 0 ? [found('archive', { count: waitingDays })] : []),
            ...[...overdueWebhooks, ...silentWebhooks].map((webhook) =>
              found('silent', {
                ...pick(webhook),
                since: webhook.silent_since,
                expect_every_seconds: webhook.expect_every_seconds,
              }),
            ),
          ],
        });
      },
    }),
  };
}

function processProblems({ latest }: History): FoundProblem[] {
  const processes = latest?.processes ?? [];
  const isOff = processes.some((one) => one.rate_limit_store === 'degraded');
  return [
    ...processes
      .filter(({ state }) => state === 'unresponsive')
      .map(({ pid }) => found('process', { name: String(pid) })),
    ...(isOff ? [found('rate_limits', {})] : []),
  ];
}

function filterProblems(filters: readonly StoredFilter[]): FoundProblem[] {
  const byAgent = new Map<string, FoundProblem & { count: number }>();
  for (const { agentId, agentName, filter, suspendedUntil } of filters) {
    if (filterProblem(filter) === null && suspendedUntil === null) continue;
    const known = byAgent.get(agentId) ?? { ...found('filter', { agent_id: agentId, name: agentName }), count: 0 };
    byAgent.set(agentId, { ...known, count: known.count + 1 });
  }
  return [...byAgent.values()];
}

function found(kind: FoundProblem['kind'], given: Partial<FoundProblem>): FoundProblem {
  return {
    kind,
    webhook_id: null,
    agent_id: null,
    name: null,
    count: null,
    expect_every_seconds: null,
    since: null,
    ...given,
  };
}

function pick({ webhook_id, name }: { webhook_id: string; name: string }) {
  return { webhook_id, name };
}

function isLimited(limited: number, requests: number): boolean {
  return limited >= LIMITED_MIN && limited / requests >= LIMITED_SHARE_MIN;
}

/** Reads at most once in `ms`; calls share a read. A failed read is not kept. */
function keptFor<T>(ms: number, read: () => Promise<T>): () => Promise<T> {
  let kept: { atMs: number; value: Promise<T> } | null = null;
  return () => {
    if (kept === null || performance.now() - kept.atMs >= ms) {
      const next = { atMs: performance.now(), value: read() };
      kept = next;
      next.value.catch(() => {
        if (kept === next) kept = null;
      });
    }
    return kept.value;
  };
}
