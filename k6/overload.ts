/**
 * Overload test: checks Weir's guarantees under more load than the server can handle. The rate rises from RATE_START to
 * RATE_PEAK in DURATION, stays there for DURATION and, after 16 seconds of rest, returns to RATE_START for DURATION.
 *
 *     k6 run -e WEBHOOK_URL=http://127.0.0.1:8080/in/<webhook id> -e WEIR_SECRET=<secret> -e WEIR_TOKEN=<wu_…> \
 *       -e RATE_START=50 -e RATE_PEAK=10000 -e DURATION=30s -e VUS=1500 k6/overload.ts
 *
 * Use more VUS than CLIENT_REQUESTS_MAX times the number of processes. With WEIR_TOKEN, an API token of any role, each virtual user
 * looks up the last event that was accepted from it under overload.
 */
import http from 'k6/http';
import { Counter, Rate } from 'k6/metrics';
import { eventIdOf, outcomeOf } from './lib/answers.ts';
import { OVERLOAD_TIMEOUT_MS, planOverload } from './lib/plans.ts';
import { type Extra, preflight, type Response, sender } from './lib/post.ts';
import { apiUrl } from './lib/settings.ts';
import type { Data } from './lib/steps.ts';
import { summarize } from './lib/summary.ts';

const plan = planOverload(__ENV);
const { BODY_BYTES, WEIR_TOKEN } = plan.settings;
const send = sender(plan.target, BODY_BYTES);
const extra: Extra = { timeout: OVERLOAD_TIMEOUT_MS };

export const options = plan.options;
export const handleSummary = (data: Data) => summarize(plan, data, new Date());

/** Checks WEIR_TOKEN too. */
export function setup() {
  const passed = preflight(plan);
  const status = WEIR_TOKEN === '' ? 200 : statusOf(passed.eventId);
  if (status !== 200)
    throw new Error(`Nothing was measured: an event is looked up with WEIR_TOKEN, and the answer is ${status}`);
  return passed;
}

const refused = new Counter('weir_refused');
const broken = new Counter('weir_broken_contract');
const unanswered = new Rate('weir_unanswered');
const found = new Rate('weir_found');

/** Last event of this virtual user that was answered 202 under overload; k6 reuses the virtual users for the recovery. */
let promised: string | null = null;

/** One signed request under overload; remembers the event that was accepted. */
export function overload(): void {
  const answer = judged(send(extra));
  promised = eventIdOf(answer) ?? promised;
}

/** One signed request after the overload, and the look-up of the remembered event. */
export function recovery(): void {
  if (promised !== null && WEIR_TOKEN !== '') lookUp(promised);
  judged(send(extra));
}

function judged(answer: Response): Response {
  const outcome = outcomeOf(answer);
  unanswered.add(outcome === 'unanswered');
  if (outcome === 'refused') refused.add(1);
  if (outcome === 'broken') broken.add(1);
  return answer;
}

/** Only 200 and 404 are conclusive; after any other status, the next iteration of the virtual user tries again. */
function lookUp(eventId: string): void {
  const status = statusOf(eventId);
  if (status !== 200 && status !== 404) return;
  found.add(status === 200);
  promised = null;
}

function statusOf(eventId: string): number {
  return http.get(apiUrl(plan.target.url, `events/${eventId}`), {
    headers: { Authorization: `Bearer ${WEIR_TOKEN}` },
    tags: { name: 'GET /api/v1/events/{id}' },
  }).status;
}
