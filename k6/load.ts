/**
 * Load test: signed requests at a constant arrival rate. All must be answered 202, with a 99th percentile below P99_MS.
 *
 *     k6 run -e WEBHOOK_URL=http://127.0.0.1:8080/in/<webhook id> -e WEIR_SECRET=<secret> \
 *       -e RATE=1000 -e DURATION=1m -e VUS=100 -e BODY_BYTES=1024 k6/load.ts
 */
import { planLoad } from './lib/plans.ts';
import { preflight, sender } from './lib/post.ts';
import type { Data } from './lib/steps.ts';
import { summarize } from './lib/summary.ts';

const plan = planLoad(__ENV);
const send = sender(plan.target, plan.settings.BODY_BYTES);

export const options = plan.options;
export const setup = () => preflight(plan);
export const handleSummary = (data: Data) => summarize(plan, data, new Date());

/** One signed request. */
export default function load(): void {
  send();
}
