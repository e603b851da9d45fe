/**
 * Load test: signed requests at a constant arrival rate. All must be answered 202, with a 99th percentile below P99_MS.
 *
 *     k6 run -e WEBHOOK_URL=http://127.0.0.1:8080/in/<webhook id> -e WEIR_SECRET=<secret> \
 *       -e RATE=1000 -e DURATION=1m -e VUS=100 -e BODY_BYTES=1024 k6/load.ts
 *
 * All requests come from one address: give the webhook a limit of its own (webhook add --rate-limit 100000000), or most are answered 429.
 */
import { loadOptions } from './lib/options.ts';
import { sender } from './lib/post.ts';
import { readLoadSettings } from './lib/settings.ts';

const settings = readLoadSettings(__ENV);
const send = sender(settings);

export const options = loadOptions(settings);

export default function load(): void {
  send();
}
