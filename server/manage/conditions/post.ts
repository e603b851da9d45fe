/** Requests to ALERT_URL: signed (Standard Webhooks), bounded in time and bytes, to a checked address, without following redirects. */
import type { IncomingMessage } from 'node:http';
import {
  AddressRefused,
  type CheckedAddress,
  checkedAddresses,
  type Resolve,
  requestChecked,
} from '../../base/net/checked-address.ts';
import type { Settings } from '../../base/settings/read.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { type Backoff, backoffMs, parseRetryAfter } from '../../base/time/backoff.ts';
import { presetNamed } from '../../model/signatures/presets.ts';
import { signRequest } from '../../model/signatures/sign.ts';
import type { Queries } from '../../store/connect/pool.ts';
import { type ClaimedRequest, claimRequest, endRequest } from '../../store/queries/alerts/alerts.ts';

/** Time limit from the look-up of the name to the head of the response. */
const POST_TIMEOUT_MS = 10_000;
/** Limit on the bytes read of a response body. It is read so that the receiver is not cut off while it writes, and is not used. */
const ANSWER_BYTES_MAX = 16_384;

export type PostSettings = Pick<Settings, 'ALERT_URL' | 'ALERT_SECRET' | 'ALERT_PRIVATE_NETWORKS'>;

/**
 * `error` and `fix` are texts for people: they name the host of ALERT_URL, never its path, which may be a secret. `retryAfterMs`: the
 * Retry-After of a 429 or 503; null: none.
 */
export type Posted = { durationMs: number } & (
  | { kind: 'sent'; status: number }
  | { kind: 'failed'; status: number | null; error: string; fix: string; retryAfterMs: number | null }
);

interface PostOptions {
  timeoutMs?: number;
  resolve?: Resolve;
  /** Ends the request. */
  signal?: AbortSignal;
}

/**
 * Sends a request. Never rejects.
 * @param message.id webhook-id, the same at each attempt
 * @param nowMs webhook-timestamp, Unix milliseconds
 */
export async function postAlert(
  settings: PostSettings & { ALERT_URL: string },
  message: { id: string; body: string },
  nowMs: number,
  { timeoutMs = POST_TIMEOUT_MS, resolve, signal }: PostOptions = {},
): Promise<Posted> {
  const startMs = performance.now();
  const url = new URL(settings.ALERT_URL);
  const ending = AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(signal === undefined ? [] : [signal])]);
  const ended = new Promise<never>((_, reject) => {
    ending.addEventListener('abort', () => reject(ending.reason), { once: true });
  });
  ended.catch(() => {});
  const unanswered = (error: Error) =>
    ({ kind: 'failed', status: null, retryAfterMs: null, ...explain(error, url, timeoutMs) }) as const;
  if (ending.aborted) return { ...unanswered(ending.reason), durationMs: 0 };
  const durationMs = () => Math.round((performance.now() - startMs) * 100) / 100;
  try {
    const allowPrivate = settings.ALERT_PRIVATE_NETWORKS === 'allow';
    const addresses = await Promise.race([checkedAddresses(url.hostname, allowPrivate, resolve), ended]);
    const { status, retryAfter } = await Promise.race([
      post(url, addresses, signed(settings, message, nowMs), ending),
      ended,
    ]);
    if (status >= 200 && status < 300) return { kind: 'sent', status, durationMs: durationMs() };
    const error = `${url.host} answered ${status}`;
    const retryAfterMs = status === 429 || status === 503 ? parseRetryAfter(retryAfter, Date.now()) : null;
    return { kind: 'failed', status, error, fix: fixOfStatus(status), retryAfterMs, durationMs: durationMs() };
  } catch (error) {
    return { ...unanswered(error as Error), durationMs: durationMs() };
  }
}

/** Time until retry number `attempt` (0 for the first): the back-off, or longer if the receiver asks for it, up to `retry.maxMs`. */
export function retryMs(posted: Posted, attempt: number, retry: Backoff): number {
  const askedMs = posted.kind === 'failed' ? (posted.retryAfterMs ?? 0) : 0;
  return Math.max(backoffMs(attempt, retry, Math.random()), Math.min(askedMs, retry.maxMs));
}

/** Without ALERT_SECRET the request has an id and a time, but no signature. */
function signed(
  { ALERT_SECRET: secret }: PostSettings,
  message: { id: string; body: string },
  nowMs: number,
): { headers: Record<string, string>; body: Buffer } {
  const body = Buffer.from(message.body);
  if (secret === undefined)
    return { headers: { 'webhook-id': message.id, 'webhook-timestamp': String(Math.floor(nowMs / 1000)) }, body };
  const { definition } = presetNamed('standard-webhooks')!;
  return signRequest(definition, Buffer.from(secret), { body, method: 'POST', url: '', id: message.id, timeMs: nowMs });
}

/** Resolves with the status and Retry-After as soon as the head of the response is there. */
async function post(
  url: URL,
  addresses: readonly CheckedAddress[],
  { headers: given, body }: ReturnType<typeof signed>,
  signal: AbortSignal,
): Promise<{ status: number; retryAfter: string | undefined }> {
  const fields = { 'content-type': 'application/json', 'content-length': body.length, 'user-agent': 'weir' };
  const headers = { ...given, ...fields };
  const response = await requestChecked(url, addresses, { method: 'POST', headers, body, signal });
  readAway(response);
  return { status: response.statusCode ?? 0, retryAfter: response.headers['retry-after'] };
}

function readAway(response: IncomingMessage): void {
  let bytes = 0;
  response.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX) response.destroy();
  });
  response.on('error', () => {});
}

function fixOfStatus(status: number): string {
  if (status >= 300 && status < 400) return 'redirects are not followed: set ALERT_URL to the final address';
  if (status === 401 || status === 403) return 'compare ALERT_SECRET, or the token in ALERT_URL, with the receiver';
  if (status === 404 || status === 405 || status === 410) return 'correct the path of ALERT_URL';
  return 'see the log of the receiver';
}

const byCode: Readonly<Record<string, readonly [error: string, fix: string]>> = {
  ENOTFOUND: ['has no address', 'correct the host name in ALERT_URL, or the DNS of this machine'],
  EAI_AGAIN: ['cannot be resolved now', 'check the DNS of this machine'],
  ECONNREFUSED: ['refused the connection', 'start the receiver, or correct the port in ALERT_URL'],
  ECONNRESET: ['closed the connection without a response', 'see the log of the receiver'],
  EHOSTUNREACH: ['is unreachable', 'check the network of this machine'],
  ENETUNREACH: ['is unreachable', 'check the network of this machine'],
};

function explain(error: Error & { code?: string }, url: URL, timeoutMs: number): { error: string; fix: string } {
  if (error instanceof AddressRefused)
    return {
      error: error.message,
      fix: error.isPrivate
        ? 'set ALERT_PRIVATE_NETWORKS=allow if the receiver is in your own network'
        : 'use an address of the receiver that other machines reach',
    };
  if (error.name === 'TimeoutError')
    return {
      error: `${url.host} did not answer within ${timeoutMs / 1000} s`,
      fix: 'make the receiver answer before it does its work',
    };
  if (error.name === 'AbortError')
    return { error: 'Weir stopped during the request', fix: 'nothing: it is sent again' };
  const code = error.code ?? '';
  const known = byCode[code];
  if (known !== undefined) return { error: `${url.host} ${known[0]}`, fix: known[1] };
  if (/CERT|SIGNED|SIGNATURE|SSL|TLS/.test(code))
    return {
      error: `the TLS connection to ${url.host} failed: ${code}`,
      fix: 'give the receiver a valid certificate, or Weir its authority with NODE_EXTRA_CA_CERTS',
    };
  return { error: `the request to ${url.host} failed: ${code || error.name}`, fix: 'see the log of the receiver' };
}

const RETRY = { firstMs: 5_000, maxMs: 3_600_000 };
/** Attempts of one request. With RETRY they take about 10 to 14 hours. */
export const ATTEMPTS_MAX = 20;
/** Lease of a claimed request: longer than an attempt with its queries, so that no other machine begins one during it. */
const LEASE_SECONDS = 60;
/** Limit on the requests of one run. */
const RUN_MAX = 100;

interface DeliverParts {
  database: Queries;
  log: Log;
  onAttempt: (outcome: 'sent' | 'failed' | 'given_up') => void;
  /** Time limit of an attempt. */
  timeoutMs?: number;
}

/**
 * Sends the requests that are due, one after the other, until none is left or `signal` aborts. Several machines may do so: each request is
 * claimed by one of them. Rejects with errors of the database; a claimed request is then sent again with the same id.
 */
export async function deliver(
  settings: PostSettings & { ALERT_URL: string },
  { database, log, onAttempt, timeoutMs = POST_TIMEOUT_MS }: DeliverParts,
  signal: AbortSignal,
): Promise<void> {
  for (let requests = 0; requests < RUN_MAX && !signal.aborted; requests++) {
    const claimed = await claimRequest(database, LEASE_SECONDS);
    if (claimed === null) return;
    const posted = claimed.too_old ? tooOld : await postAlert(settings, claimed, Date.now(), { timeoutMs, signal });
    const outcome = outcomeOf(claimed, posted);
    await endRequest(database, claimed, {
      state: outcome === 'given_up' ? 'failed' : outcome === 'sent' ? 'sent' : 'pending',
      status: posted.status,
      error: posted.kind === 'failed' ? posted.error : null,
      retrySeconds: retryMs(posted, claimed.attempts - 1, RETRY) / 1000,
    });
    onAttempt(outcome);
    const { alert_id: alert, type, attempts } = claimed;
    if (posted.kind === 'sent') log('alert_sent', { alert, type, status: posted.status, attempts });
    else
      log(outcome === 'given_up' ? 'alert_given_up' : 'alert_send_failed', {
        alert,
        type,
        attempts,
        reason: posted.error,
        fix: posted.fix,
      });
  }
}

const tooOld: Posted = {
  kind: 'failed',
  status: null,
  error: 'it could not be sent for a day',
  fix: 'see the earlier lines, and weir alert test',
  retryAfterMs: null,
  durationMs: 0,
};

function outcomeOf({ attempts, too_old }: ClaimedRequest, { kind }: Posted): 'sent' | 'failed' | 'given_up' {
  if (kind === 'sent') return 'sent';
  return too_old || attempts >= ATTEMPTS_MAX ? 'given_up' : 'failed';
}
