/** GET /api/v1/webhooks/{id}/requests: events, rejections and samples of other requests side by side, newest first. */
import { problem } from '../../../base/http/problem.ts';
import { DAY_MS, HOUR_MS } from '../../../base/time/durations.ts';
import { eventFilterOf } from '../../../model/event-filter.ts';
import { recordId } from '../../../model/fields.ts';
import {
  fixOfReason,
  HISTORY_POINTS_MAX,
  MINUTES_KEPT_HOURS,
  QUARTER_SECONDS,
  requestsQuery,
  requestsSchema,
  type WebhookRequest,
} from '../../../model/history.ts';
import { answersOf } from '../../../model/webhook-answers.ts';
import { PartialReads } from '../../../store/cells/cells-database.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { listRejections } from '../../../store/queries/rejections/rejections.ts';
import { listRequestSamples } from '../../../store/queries/rejections/ring.ts';
import { readHistory } from '../../../store/queries/webhooks/history.ts';
import { findWebhook } from '../../../store/queries/webhooks/webhooks.ts';
import { EventSearch } from '../events/search.ts';
import { done, operation } from '../operation.ts';
import { pageOf, pageQuery } from '../paging.ts';
import { describeRejection } from '../rejections/schema.ts';

/** Lists requests and counts them by result over time. */
export function requestOperations(database: Database) {
  const search = new EventSearch(database);
  return {
    listRequests: operation({
      id: { schema: recordId, problem: 'webhook_unknown' },
      query: requestsQuery(pageQuery),
      answers: { 200: requestsSchema },
      handle: async ({ id, query, isGone }) => {
        const webhook = await findWebhook(database.query, id);
        if (webhook === undefined) return problem('webhook_unknown');
        const { limit, cursor = null, status = null, from = null, to = null } = query;
        const reads = new PartialReads(database);
        const { answer, refusedStatus } = answersOf(webhook);
        const answered = { accepted: answer?.status ?? 202, rejected: refusedStatus };
        const is = (of: number) => status === null || status === of;
        const wanted = eventFilterOf({ webhook_id: id, from: query.from, to: query.to }, null, cursor);
        const [events, rejections, samples, counted] = await Promise.all([
          is(answered.accepted) ? search.find({ ...wanted, limit: limit + 1, isGone }, reads) : null,
          is(answered.rejected)
            ? listRejections(database, { webhookId: id, reason: null, from, to }, cursor, limit + 1)
            : [],
          listRequestSamples(database, id, { status, from, to }, cursor, limit + 1),
          countRequests(database, id, from, to, Date.now()),
        ]);
        const all: WebhookRequest[] = [
          ...(events?.rows ?? []).map((event) => ({
            id: event.id,
            status: answered.accepted,
            at: event.received_at,
            client: event.source_ip,
            bytes: event.bytes,
            reason: null,
            fix: null,
            event_id: event.id,
          })),
          ...rejections.map(describeRejection).map((one) => ({
            id: one.id,
            status: answered.rejected,
            at: one.received_at,
            client: one.source_ip,
            bytes: one.bytes,
            reason: one.reason,
            fix: one.hint,
            rejection_id: one.id,
            ...(one.accepted_event_id !== null && { event_id: one.accepted_event_id }),
          })),
          ...samples.map(({ event_id, ...sample }) => ({
            ...sample,
            fix: fixOfReason(sample.reason),
            ...(event_id !== null && { event_id }),
          })),
        ];
        all.sort((one, other) => (one.id < other.id ? 1 : -1));
        return done(200, { ...pageOf(all, limit), ...counted, cells_away: reads.cellsAway });
      },
    }),
  };
}

/** Counts begin here: no request is older. */
const COUNTED_FROM_MS = Date.UTC(2020);

/**
 * Counts the requests of a webhook in steps of `stepOf`. The beginning of a span with more than HISTORY_POINTS_MAX points is left out.
 * @param from ISO 8601; null: an hour before `to`
 * @param to ISO 8601; null: now
 */
async function countRequests(
  database: Database,
  webhookId: string,
  from: string | null,
  to: string | null,
  nowMs: number,
) {
  const toMs = to === null ? nowMs : Math.max(COUNTED_FROM_MS, Math.min(nowMs, Date.parse(to)));
  // The longest step is a day.
  const earliestMs = Math.max(COUNTED_FROM_MS, toMs - (HISTORY_POINTS_MAX - 2) * DAY_MS);
  const fromMs = Math.max(earliestMs, from === null ? toMs - HOUR_MS : Date.parse(from));
  const read = (stepSeconds: number) => {
    const stepMs = stepSeconds * 1_000;
    // At least one point, also if `from` is not before `to` or the step is not over.
    const span = {
      fromMs: Math.floor(Math.min(fromMs, toMs) / stepMs) * stepMs,
      toMs: Math.ceil((toMs + 1) / stepMs) * stepMs,
    };
    return readHistory(database, { webhookId, stepSeconds, ...span });
  };
  const step = stepOf(fromMs, toMs, nowMs);
  const counts = await read(step);
  if (step !== 60) return { step, counts };
  // With tens of thousands of active webhooks, minutes count refused requests only; then use quarters of an hour, which count all.
  const quarters = await read(QUARTER_SECONDS);
  const sum = (points: typeof counts) => points.reduce((total, { accepted }) => total + accepted, 0);
  const whole = quarters.slice(1, -1);
  const within = counts.filter(({ at }) => whole.length > 0 && at >= whole[0]!.at && at < quarters.at(-1)!.at);
  return sum(whole) > sum(within) ? { step: QUARTER_SECONDS, counts: quarters } : { step, counts };
}

/** Seconds from one point to the next. */
function stepOf(fromMs: number, toMs: number, nowMs: number): number {
  const isRecent = fromMs >= nowMs - MINUTES_KEPT_HOURS * HOUR_MS;
  if (isRecent) return toMs - fromMs <= DAY_MS ? 60 : QUARTER_SECONDS;
  return toMs - fromMs <= 60 * DAY_MS ? 3_600 : 86_400;
}
