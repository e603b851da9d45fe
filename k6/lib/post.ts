/** The only module that uses k6's modules for sending and signing. */
import { hmac } from 'k6/crypto';
import { b64decode } from 'k6/encoding';
import exec from 'k6/execution';
import http, { type RefinedResponse } from 'k6/http';
import { Counter } from 'k6/metrics';
import { codeOf, eventIdOf, objectionTo } from './answers.ts';
import { labelsOf } from './metrics-text.ts';
import { payloadOf } from './payloads.ts';
import type { Plan } from './plans.ts';
import type { Target } from './settings.ts';
import { isRepeatable, signatureHeaders } from './signing.ts';

export type Response = RefinedResponse<'text'>;

/** Options of one request besides its content. */
export interface Extra {
  tags?: Record<string, string>;
  /** In milliseconds. */
  timeout?: number;
}

/** Signs a body by the scheme, with k6's HMAC, the current time and a new id. Returns the headers to send. */
export function sign({ url, secret, scheme }: Target, body: string): Record<string, string> {
  const timeMs = Date.now();
  return signatureHeaders(scheme, { body, secret, url, id: uniqueId(timeMs), timeMs }, { hmac, b64decode });
}

/** Unique over runs too: Weir stores an id once. */
export function uniqueId(timeMs = Date.now()): string {
  return `k6-${timeMs}-${Math.random().toString(36).slice(2)}`;
}

/**
 * Posts a body.
 * @param signature headers from `sign`; none send the request unsigned
 * @param expected the status, or the statuses, that k6 does not count in http_req_failed
 */
export function post(
  url: string,
  body: string,
  signature: Record<string, string>,
  expected: number | readonly number[],
  { tags, ...extra }: Extra = {},
): Response {
  return http.post(url, body, {
    headers: { 'Content-Type': 'application/json', ...signature },
    responseCallback: http.expectedStatuses(...[expected].flat()),
    responseType: 'text',
    // One name for all webhooks: the webhook id in the URL would create a separate time series.
    tags: { name: 'POST /in/{webhook_id}', ...tags },
    ...extra,
  });
}

const answers = new Counter('weir_answers');

/** Posts a body, and counts the answer by status and code. */
export function counted(...request: Parameters<typeof post>): Response {
  const answer = post(...request);
  const tags = request[4]?.tags;
  answers.add(1, { ...tags, status: String(answer.status), code: codeOf(answer) });
  return answer;
}

/**
 * Returns a function that sends signed requests and expects 202.
 *
 * Each virtual user creates its body once, and its signature too if the scheme allows it: CPU that k6 uses is not available
 * to a server on the same machine.
 */
export function sender(target: Target, bodyBytes: number) {
  let body: string | null = null;
  let signature: Record<string, string> | null = null;
  return function send(extra?: Extra): Response {
    body ??= payloadOf(bodyBytes, exec.vu.idInTest);
    if (signature === null || !isRepeatable(target.scheme)) signature = sign(target, body);
    return counted(target.url, body, signature, 202, extra);
  };
}

/**
 * `setup` of a script: sends one signed request to each webhook, and throws an Error with the reason when the run cannot succeed.
 * Returns what METRICS_URL says about the server, and the id of the last event.
 */
export function preflight({ targets, planned, peak, settings }: Plan) {
  const perWindow = (seconds: number) =>
    planned === null || peak === null ? null : Math.min(planned, Math.ceil(peak * seconds));
  let eventId = '';
  for (const target of targets) {
    const body = payloadOf(64, 0);
    const answer = post(target.url, body, sign(target, body), 202, { timeout: 10_000 });
    const objection = objectionTo(answer, target.url, perWindow);
    if (objection !== null) throw new Error(`Nothing was measured: ${objection}`);
    eventId = eventIdOf(answer)!;
  }
  const { METRICS_URL } = settings;
  const page = METRICS_URL === '' ? '' : String(http.get(METRICS_URL, { responseType: 'text' }).body);
  return { build: labelsOf('weir_build_info', page), eventId };
}
