/**
 * Scaling test: virtual users that wait for each response before sending again, with more users in each step. Run it against a
 * server with WORKERS=1, then 2, then 4, and compare:
 *
 *     k6 run --quiet -e WEBHOOK_URL=http://127.0.0.1:8080/in/<webhook id> -e WEIR_SECRET=<secret> \
 *       -e WORKERS=2 -e STEPS=16,64,256 -e DURATION=20s -e RUNS="$PWD/scale.jsonl" k6/scale.ts >> scale.jsonl
 *
 * Standard error receives a table of this run and the runs in RUNS; standard output receives this run as a line of JSON. All
 * requests come from one address: give the webhook a limit of its own (webhook add --rate-limit 100000000).
 */
import { scaleOptions } from './lib/options.ts';
import { sender } from './lib/post.ts';
import { type Metrics, runOf, runsIn, tableOf } from './lib/scale-runs.ts';
import { readScaleSettings } from './lib/settings.ts';

const settings = readScaleSettings(__ENV);
const send = sender(settings);
const earlier = runsIn(settings.runsFile === null ? '' : open(settings.runsFile));

export const options = scaleOptions(settings);

export default function scale(): void {
  send();
}

export function handleSummary({ metrics }: { metrics: Metrics }): Record<string, string> {
  const run = runOf(settings, metrics, new Date());
  return { stdout: `${JSON.stringify(run)}\n`, stderr: tableOf([...earlier, run]) };
}
