/** /api/v1/history: requests to webhooks over time, from the counts that every process writes every few seconds. */
import { z } from 'zod';
import { invalid } from '../../../base/http/problem.ts';
import { DAY_MS, HOUR_MS } from '../../../base/time/durations.ts';
import { instant, recordId } from '../../../model/fields.ts';
import {
  HISTORY_POINTS_MAX,
  historySchema,
  historySteps,
  MINUTES_KEPT_HOURS,
  quartersSince,
  webhookHistorySchema,
} from '../../../model/history.ts';
import { outageSchema } from '../../../model/issues.ts';
import { type LatencyDays, latencyItemSchema, latencySpans } from '../../../model/latency.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { readOutages } from '../../../store/queries/alerts/issues.ts';
import { HOUR, readHistory, readWebhookHistory, readWebhookQuarters } from '../../../store/queries/webhooks/history.ts';
import { readLatency } from '../../../store/queries/webhooks/latency.ts';
import { done, operation } from '../operation.ts';
import { flag, limitUpTo, listSchema, listUpTo } from '../paging.ts';

const OUTAGE_DAYS = 30;
/** The default step gives about this many points. */
const POINTS_WANTED = 100;
const WEBHOOKS_MAX = 100;
const OUTAGES_MAX = 200;

const [EARLIEST_MS, LATEST_MS] = [Date.UTC(1970), Date.UTC(9999)];
/** In Unix milliseconds. Rounding to the step and a day before must stay in the years that ISO 8601 and Postgres write alike. */
const time = instant
  .transform((text) => Date.parse(text))
  .refine((ms) => ms >= EARLIEST_MS && ms < LATEST_MS, 'Give a time from the year 1970 to 9998.');
const historyQuery = z.strictObject({
  webhook_id: recordId.optional().describe('absent: all webhooks together'),
  from: time.optional().describe('absent: 24 hours before `to`; rounded down to the step'),
  to: time.optional().describe('absent: now; rounded up to the step'),
  step: z.coerce
    .number()
    .pipe(z.literal([...historySteps]))
    .optional()
    .describe(
      `seconds from one point to the next, at most ${HISTORY_POINTS_MAX} points; below 3600 only for the last ${MINUTES_KEPT_HOURS} hours. Absent: about ${POINTS_WANTED} points`,
    ),
});

const outageQuery = z.strictObject({
  from: time.optional().describe('absent: 30 days before `to`'),
  to: time.optional().describe('absent: now'),
  limit: limitUpTo(OUTAGES_MAX, OUTAGES_MAX, 'newest outages'),
});

const latencyQuery = z.strictObject({
  days: z
    .enum(Object.keys(latencySpans) as `${LatencyDays}`[])
    .default('1')
    .describe('1: the last 24 hours; 7 or 30: days in UTC, with today'),
  id: recordId.optional().describe('only this webhook or agent'),
});

const webhookHistoryQuery = z.strictObject({
  webhook_ids: listUpTo(WEBHOOKS_MAX, recordId)
    .optional()
    .describe(`only these webhooks: ids separated by commas, at most ${WEBHOOKS_MAX}; absent: all`),
  limit: limitUpTo(WEBHOOKS_MAX, WEBHOOKS_MAX, 'webhooks with the most events'),
  quarters: flag.optional().describe('true: adds the quarters of an hour'),
});

/** The history of requests, outages and latencies. */
export function historyOperations(database: Database) {
  return {
    showHistory: operation({
      query: historyQuery,
      answers: { 200: historySchema },
      handle: async ({ query }) => {
        const to = query.to ?? Date.now();
        const from = query.from ?? to - DAY_MS;
        if (from >= to) return invalid('/from', 'Give a time before `to`.');
        const isRecent = from >= Date.now() - MINUTES_KEPT_HOURS * HOUR_MS;
        const step = query.step ?? defaultStep(to - from, isRecent);
        if (step < HOUR && !isRecent)
          return invalid('/step', `Give 3600 or more: minutes are kept for ${MINUTES_KEPT_HOURS} hours.`);
        const stepMs = step * 1_000;
        const span = { fromMs: Math.floor(from / stepMs) * stepMs, toMs: Math.ceil(to / stepMs) * stepMs };
        if ((span.toMs - span.fromMs) / stepMs > HISTORY_POINTS_MAX)
          return invalid('/step', `Give a longer step, or a shorter time: at most ${HISTORY_POINTS_MAX} points.`);
        const points = await readHistory(database, {
          webhookId: query.webhook_id ?? null,
          stepSeconds: step,
          ...span,
        });
        return done(200, {
          from: new Date(span.fromMs).toISOString(),
          to: new Date(span.toMs).toISOString(),
          step,
          points,
        });
      },
    }),

    listOutages: operation({
      query: outageQuery,
      answers: { 200: listSchema(outageSchema) },
      handle: async ({ query: { from, to = Date.now(), limit } }) => {
        const items = await readOutages(database, from ?? to - OUTAGE_DAYS * DAY_MS, to, limit);
        return done(200, { items });
      },
    }),

    listLatency: operation({
      query: latencyQuery,
      answers: { 200: listSchema(latencyItemSchema) },
      handle: async ({ query: { days, id } }) =>
        done(200, { items: await readLatency(database, Number(days) as LatencyDays, Date.now(), id) }),
    }),

    listWebhookHistory: operation({
      query: webhookHistoryQuery,
      answers: { 200: listSchema(webhookHistorySchema) },
      handle: async ({ query }) => {
        const sinceMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS - 23 * HOUR_MS;
        const items = await readWebhookHistory(database, sinceMs, query.limit, query.webhook_ids ?? null);
        if (query.quarters !== 'true') return done(200, { items });
        const shown = items.map(({ webhook_id }) => webhook_id);
        const quarters = await readWebhookQuarters(database, quartersSince(Date.now()), shown);
        return done(200, { items: items.map((item) => ({ ...item, quarters: quarters.get(item.webhook_id)! })) });
      },
    }),
  };
}

function defaultStep(durationMs: number, isRecent: boolean): number {
  const allowed = historySteps.filter((step) => isRecent || step >= HOUR);
  return allowed.find((step) => durationMs / (step * 1_000) <= POINTS_WANTED) ?? allowed.at(-1)!;
}
