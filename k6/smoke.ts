/**
 * Smoke test: one virtual user sends one request for each response that ingest gives without load.
 *
 *     k6 run -e WEBHOOK_URL=http://127.0.0.1:8080/in/<webhook id> -e WEIR_SECRET=<secret> k6/smoke.ts
 *
 * The webhook must be enabled, and have the scheme of WEIR_SCHEME; without it, the default scheme and signature header. When
 * the server's WEBHOOK_MAX_PAYLOAD_BYTES is not the default, set the same value here.
 */
import { check } from 'k6';
import { accepted, refused } from './lib/checks.ts';
import { smokeOptions } from './lib/options.ts';
import { payloadOf } from './lib/payloads.ts';
import { post, sign } from './lib/post.ts';
import { readSmokeSettings, unknownWebhookUrl } from './lib/settings.ts';

export const options = smokeOptions;

const settings = readSmokeSettings(__ENV);
const BODY_BYTES = 1024;
const body = payloadOf(BODY_BYTES, 1);
const signature = sign(settings, body);
// Digits at the end change a text, hex or base64 secret; zero bytes at the end of a key would not change an HMAC.
const otherSecret = `${settings.secret}1111`;
const tooLarge = payloadOf(settings.payloadBytesMax + 1, 1);

export default function smoke(): void {
  const { url } = settings;
  check(post(url, body, signature, 202), accepted(BODY_BYTES));
  check(post(url, body, {}, 403), refused('an unsigned request', 403));
  check(
    post(url, body, sign({ ...settings, secret: otherSecret }, body), 403),
    refused('a request signed with another secret', 403),
  );
  check(post(url, `${body} `, signature, 403), refused('a body changed after signing', 403));
  check(post(url, tooLarge, sign(settings, tooLarge), 413), refused('a body one byte over the cap', 413));
  check(post(unknownWebhookUrl(url), body, signature, 404), refused('an unknown webhook', 404));
}
