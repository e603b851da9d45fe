/**
 * Scaling test: virtual users that wait for each response before sending again, with more users in each step. Run it against a
 * server with WORKERS=1, then 2, then 4, and compare:
 *
 *     k6 run --quiet -e WEBHOOK_URL=http://127.0.0.1:8080/in/<webhook id> -e WEIR_SECRET=<secret> \
 *       -e WORKERS=2 -e STEPS=16,64,256 -e DURATION=20s -e SUMMARY=stdout -e RUNS="$PWD/scale.jsonl" k6/scale.ts >> scale.jsonl
 */
import { preflight, sender } from './lib/post.ts';
import { type Data, planScale, runsIn } from './lib/steps.ts';
import { summarize } from './lib/summary.ts';

const plan = planScale(__ENV);
const send = sender(plan.target, plan.settings.BODY_BYTES);
const earlier = runsIn(plan.settings.RUNS === '' ? '' : open(plan.settings.RUNS));

export const options = plan.options;
export const setup = () => preflight(plan);
export const handleSummary = (data: Data) => summarize(plan, data, new Date(), earlier);

/** One signed request. */
export default function scale(): void {
  send();
}
