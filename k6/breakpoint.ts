/**
 * Breakpoint test: a constant arrival rate, higher in each step. The run ends, and k6 fails, in the first step with a 99th percentile above
 * P99_MS, with failures, or with requests that were not sent. The table has the figures of each step.
 *
 *     k6 run -e WEBHOOK_URL=http://127.0.0.1:8080/in/<webhook id> -e WEIR_SECRET=<secret> \
 *       -e RATES=1000,2000,4000,8000 -e DURATION=20s -e VUS=500 k6/breakpoint.ts
 */
import { preflight, sender } from './lib/post.ts';
import { type Data, planBreakpoint, runsIn } from './lib/steps.ts';
import { summarize } from './lib/summary.ts';

const plan = planBreakpoint(__ENV);
const send = sender(plan.target, plan.settings.BODY_BYTES);
const earlier = runsIn(plan.settings.RUNS === '' ? '' : open(plan.settings.RUNS));

export const options = plan.options;
export const setup = () => preflight(plan);
export const handleSummary = (data: Data) => summarize(plan, data, new Date(), earlier);

/** One signed request. */
export default function step(): void {
  send();
}
