/** GET /api/v1/agents/{id}/backlog: what waits for an agent over time, and when it will have caught up. */
import { problem } from '../../../base/http/problem.ts';
import { MINUTE_MS } from '../../../base/time/durations.ts';
import { backlogSchema } from '../../../model/agents.ts';
import { recordId } from '../../../model/fields.ts';
import { QUARTER_SECONDS, QUARTERS_SHOWN, quartersSince } from '../../../model/history.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { findAgent } from '../../../store/queries/agents/agents.ts';
import { readPassed } from '../../../store/queries/agents/history.ts';
import { countOrEstimateDeliveries } from '../../../store/queries/deliveries/counts.ts';
import { done, operation } from '../operation.ts';

const RATE_MINUTES = 5;
/** A rate over less time is mostly chance. */
const RATE_SECONDS_MIN = 30;
/** A forecast reaches no further than this. */
const FORECAST_SECONDS_MAX = 30 * 86_400;

type Passed = Awaited<ReturnType<typeof readPassed>>;

/** Counts the unfinished deliveries of an agent and computes their past from the counts of the history. */
export function showBacklog(database: Database) {
  return operation({
    id: { schema: recordId, problem: 'agent_unknown' },
    answers: { 200: backlogSchema },
    handle: async ({ id }) => {
      const agent = await findAgent(database.query, id);
      if (agent === undefined) return problem('agent_unknown');
      const now = Date.now();
      const rateSinceMs = Math.floor(now / MINUTE_MS) * MINUTE_MS - RATE_MINUTES * MINUTE_MS;
      const [counted, minutes, quarters] = await Promise.all([
        countOrEstimateDeliveries(database, { agentId: id }),
        readPassed(database, id, rateSinceMs, 60),
        readPassed(database, id, quartersSince(now), QUARTER_SECONDS),
      ]);
      const pending = counted.pending + counted.leased;
      return done(200, {
        ...counted,
        pending,
        ...forecast(pending, minutes, rateSinceMs, now),
        points: pointsOf(pending, quarters, now, Date.parse(agent.created_at)),
      });
    },
  });
}

/**
 * Computes rates and forecast from the last minutes.
 * @param minutes spans of a minute since `sinceMs` in which deliveries came or ended
 */
export function forecast(pending: number, minutes: Passed, sinceMs: number, nowMs: number) {
  const seconds = (fromMs: number) => Math.max(RATE_SECONDS_MIN, (nowMs - fromMs) / 1_000);
  const sum = (name: 'came' | 'ended') => minutes.reduce((total, minute) => total + minute[name], 0);
  // Count from the first minute with results: the agent may have been started after `sinceMs`.
  const first = minutes.find(({ ended }) => ended > 0);
  const inPerSecond = sum('came') / seconds(sinceMs);
  const outPerSecond = first === undefined ? 0 : sum('ended') / seconds(Date.parse(first.at));
  const left = pending / (outPerSecond - inPerSecond);
  const isSoon = pending > 0 && outPerSecond > inPerSecond && left <= FORECAST_SECONDS_MAX;
  return {
    in_per_second: inPerSecond,
    out_per_second: outPerSecond,
    caught_up_at: isSoon ? new Date(nowMs + left * 1_000).toISOString() : null,
  };
}

/**
 * Returns the backlog at the start of each quarter of an hour, oldest first; the last point is now. The past is computed backwards from
 * `pending`. Points before `createdMs`, when the agent was created, are 0: a computed value there would come from replays.
 */
export function pointsOf(
  pending: number,
  quarters: Passed,
  nowMs: number,
  createdMs: number,
): { at: string; pending: number }[] {
  const passed = new Map(quarters.map((quarter) => [Date.parse(quarter.at), quarter]));
  const sinceMs = quartersSince(nowMs);
  const points = [{ at: new Date(nowMs).toISOString(), pending }];
  let backlog = pending;
  for (let index = QUARTERS_SHOWN - 1; index >= 0; index--) {
    const atMs = sinceMs + index * QUARTER_SECONDS * 1_000;
    const { came = 0, ended = 0 } = passed.get(atMs) ?? {};
    backlog = Math.max(0, backlog - came + ended);
    points.unshift({ at: new Date(atMs).toISOString(), pending: atMs < createdMs ? 0 : backlog });
  }
  return points;
}
