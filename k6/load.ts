/**
 * Load test: signed requests at a constant arrival rate, to be answered 202 with a 99th percentile under 60 ms.
 *
 *     k6 run -e WEIR_URL=http://127.0.0.1:8080/in/<webhook id> -e WEIR_SECRET=<secret> \
 *       -e RATE=1000 -e DURATION=1m -e VUS=100 -e BODY_BYTES=1024 k6/load.ts
 *
 * One address sends everything: raise the server's RATE_LIMIT_INGEST_MAX first, or most of it is answered 429.
 */
import exec from 'k6/execution';
import { Counter } from 'k6/metrics';
import { loadOptions } from './lib/options.ts';
import { payloadOf } from './lib/payloads.ts';
import { post, sign } from './lib/post.ts';
import { readLoadSettings } from './lib/settings.ts';

const settings = readLoadSettings(__ENV);

export const options = loadOptions(settings);

const rateLimited = new Counter('weir_rate_limited_429');
const unavailable = new Counter('weir_unavailable_503');

/** Made once for each virtual user: what k6 burns on making and signing, a server on the same machine lacks. */
let signed: { body: string; signature: string } | null = null;

export default function load(): void {
  signed ??= signedPayload(exec.vu.idInTest);
  const { status } = post(settings.url, signed.body, signed.signature, 202);
  if (status === 429) rateLimited.add(1);
  if (status === 503) unavailable.add(1);
}

function signedPayload(seed: number): { body: string; signature: string } {
  const body = payloadOf(settings.bodyBytes, seed);
  return { body, signature: sign(body, settings.secret) };
}
