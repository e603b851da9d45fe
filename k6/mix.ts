/**
 * Mix: several webhooks and schemes, several sizes, batches, duplicates and refused requests, at a constant rate. Each must get the
 * answer of its kind. Of 20 iterations, one each is a batch of ten events, an event that is sent twice, a request signed with another
 * secret, and one to an unknown webhook.
 *
 *     k6 run -e WEBHOOKS="$PWD/webhooks.jsonl" -e SIZES=256,1024,16384,131072 -e RATE=200 -e DURATION=1m k6/mix.ts
 *
 * WEBHOOKS has a line of `weir webhook add --json` for each webhook, with its `scheme`.
 */
import { SharedArray } from 'k6/data';
import exec from 'k6/execution';
import { drawOf } from './lib/mix.ts';
import { payloadOf } from './lib/payloads.ts';
import { planMix } from './lib/plans.ts';
import { counted, preflight, sign, uniqueId } from './lib/post.ts';
import { unknownWebhookUrl, withOtherSecret } from './lib/settings.ts';
import type { Data } from './lib/steps.ts';
import { summarize } from './lib/summary.ts';

const plan = planMix(__ENV, open);
const BATCH_LINES = 10;

export const options = plan.options;
export const setup = () => preflight(plan);
export const handleSummary = (data: Data) => summarize(plan, data, new Date());

/** Created once for all virtual users: 128 KiB take a virtual user a second. Each keeps its copies, which are slow to read. */
const shared = new SharedArray('bodies', () => plan.settings.SIZES.map((bytes) => payloadOf(bytes, 1)));
const copies = new Map<number, string>();
const lines = Array(BATCH_LINES).fill(payloadOf(100, 1)).join('\n');

function bodyOf(bytes: number): string {
  const body = copies.get(bytes) ?? shared[plan.settings.SIZES.indexOf(bytes)]!;
  copies.set(bytes, body);
  return body;
}

/** One request, or two for a duplicate, with the answer of its kind. */
export default function mix(): void {
  const { kind, webhook, bytes } = drawOf(exec.scenario.iterationInTest, plan.targets, plan.settings.SIZES);
  const { url, dedupeHeader } = webhook;
  const extra = { tags: { kind } };
  if (kind === 'batch') return void counted(`${url}/batch`, lines, sign(webhook, lines), 202, extra);
  const body = bodyOf(bytes);
  if (kind === 'wrong_secret') return void counted(url, body, sign(withOtherSecret(webhook), body), 403, extra);
  // An unknown webhook has no limit of its own: from RATE_LIMIT_INGEST_MAX on, it is answered 429.
  if (kind === 'unknown_webhook')
    return void counted(unknownWebhookUrl(url), body, sign(webhook, body), [404, 429], extra);
  const headers = sign(webhook, body);
  if (kind === 'duplicate') headers[dedupeHeader!] = uniqueId();
  counted(url, body, headers, 202, extra);
  if (kind === 'duplicate') counted(url, body, headers, 200, extra);
}
