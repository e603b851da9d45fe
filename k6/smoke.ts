/**
 * Smoke test: one virtual user sends one request for each response that ingest gives without load.
 *
 *     k6 run -e WEBHOOK_URL=http://127.0.0.1:8080/in/<webhook id> -e WEIR_SECRET=<secret> k6/smoke.ts
 *
 * The webhook must be enabled, and have the scheme of WEIR_SCHEME; without it, the default scheme and signature header. When
 * the server's WEBHOOK_MAX_PAYLOAD_BYTES is not the default, set the same value here.
 */
import { check } from 'k6';
import { accepted, refused } from './lib/answers.ts';
import { payloadOf } from './lib/payloads.ts';
import { post, sign } from './lib/post.ts';
import { readSettings, readTarget, unknownWebhookUrl, withOtherSecret } from './lib/settings.ts';

/** One iteration by one virtual user; every check must pass. */
export const options = { vus: 1, iterations: 1, thresholds: { checks: ['rate==1'] } };

const target = readTarget(__ENV);
const { WEBHOOK_MAX_PAYLOAD_BYTES } = readSettings(__ENV, { WEBHOOK_MAX_PAYLOAD_BYTES: 1_048_576 });
const BODY_BYTES = 1024;
const body = payloadOf(BODY_BYTES, 1);
const signature = sign(target, body);
const tooLarge = payloadOf(WEBHOOK_MAX_PAYLOAD_BYTES + 1, 1);

/** One request for each response, with its checks. */
export default function smoke(): void {
  const { url } = target;
  check(post(url, body, signature, 202), accepted(BODY_BYTES));
  check(post(url, body, {}, 403), refused('an unsigned request', 403));
  check(
    post(url, body, sign(withOtherSecret(target), body), 403),
    refused('a request signed with another secret', 403),
  );
  check(post(url, `${body} `, signature, 403), refused('a body changed after signing', 403));
  check(post(url, tooLarge, sign(target, tooLarge), 413), refused('a body one byte over the cap', 413));
  check(post(unknownWebhookUrl(url), body, signature, 404), refused('an unknown webhook', 404));
}
