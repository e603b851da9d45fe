/**
 * Handshakes: requests with which a sender checks the URL of a webhook before it sends events.
 *
 * A text from the client is returned only with proof: a valid signature or the verify token. Three protocols require it without proof. The
 * challenges of Dropbox and Microsoft Graph are returned as plain text without characters of markup, the origin of CloudEvents as a DNS name.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Exchange } from '../../base/http/exchange.ts';
import { problem, problemLater } from '../../base/http/problem.ts';
import { setRateLimitFields } from '../../base/http/rate-limit.ts';
import type { Policy, RateLimiter } from '../../base/ratelimit/limiter.ts';
import { parsed } from '../../model/signatures/code-schemes.ts';
import { sha256 } from '../../model/signatures/keys.ts';
import type { Directory } from '../../store/directory.ts';
import { countRequest, keyringAt, type Webhook } from './webhook.ts';

const TEXT = 'text/plain';
const JSON_TYPE = 'application/json';
const RETRY_SECONDS = 1;
/** Printable ASCII without the characters of markup: < > & " ' */
const CHALLENGE = /^[ !#-%(-;=?-~]{1,1024}$/;
/** No colon, quote or brace: Zoom signs `v0:time:body` with the same secret, so the answer to such a token would sign a forged request. */
const PLAIN_TOKEN = /^[A-Za-z0-9_.=+/-]{1,256}$/;
/** A DNS name (CloudEvents webhook specification, section 4.1). */
const ORIGIN = /^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/;

interface HandshakeParts {
  directory: Directory<Webhook>;
  limiter: RateLimiter;
  policy: Policy;
}

/** Answers GET, HEAD and OPTIONS of a webhook's URL: HEAD 200, a handshake of its scheme, or 405. */
export function createHandshake({ directory, limiter, policy }: HandshakeParts): (exchange: Exchange) => Promise<void> {
  return async (exchange) => {
    const query = new URLSearchParams(exchange.query);
    const asks =
      exchange.method === 'HEAD' ||
      (exchange.method === 'GET'
        ? query.has('hub.challenge') || query.has('challenge')
        : exchange.method === 'OPTIONS' && exchange.header('webhook-request-origin') !== undefined);
    if (!asks) return wrongMethod(exchange);
    const webhookId = exchange.parameters[0]!.toLowerCase();
    const known = directory.known(webhookId);
    const limit = await countRequest(limiter, policy, exchange, known);
    setRateLimitFields(exchange, known?.policy ?? policy, limit);
    if (!limit.allowed) return exchange.problem(problemLater('rate_limited', limit.resetSeconds));
    const webhook = await directory.find(webhookId, Date.now());
    if (webhook === undefined) return exchange.problem(problemLater('database_unavailable', RETRY_SECONDS));
    // With HEAD, Trello and Mandrill check that the URL exists before they send events to it.
    if (exchange.method === 'HEAD') return existence(exchange, webhook);
    if (webhook === null || !webhook.enabled) return wrongMethod(exchange);
    switch (webhook.scheme.handshake) {
      case 'hub-challenge':
        return hubChallenge(exchange, webhook, query);
      case 'dropbox':
        return echo(exchange, exchange.method === 'GET' ? query.get('challenge') : null);
      case 'cloudevents':
        return cloudEvents(exchange, webhook.policy ?? policy);
      default:
        return wrongMethod(exchange);
    }
  };
}

function existence(exchange: Exchange, webhook: Webhook | null): void {
  if (webhook?.enabled) exchange.answer(200, TEXT, '');
  else exchange.problem(problem(webhook === null ? 'webhook_unknown' : 'webhook_disabled'));
}

function wrongMethod(exchange: Exchange): void {
  exchange.setHeader('allow', 'POST, HEAD');
  exchange.problem(problem('method_not_allowed'));
}

/** GET with hub.mode=subscribe: returns hub.challenge if hub.verify_token is the webhook's. */
function hubChallenge(exchange: Exchange, { verifyToken }: Webhook, query: URLSearchParams): void {
  if (exchange.method !== 'GET' || query.get('hub.mode') !== 'subscribe') return wrongMethod(exchange);
  const given = sha256(query.get('hub.verify_token') ?? '');
  if (verifyToken === null || !timingSafeEqual(given, verifyToken))
    return exchange.problem(problem('verify_token_mismatch'));
  echo(exchange, query.get('hub.challenge'));
}

function echo(exchange: Exchange, challenge: string | null): void {
  if (challenge === null || !CHALLENGE.test(challenge)) return wrongMethod(exchange);
  exchange.answer(200, TEXT, challenge);
}

/** OPTIONS of CloudEvents: any sender may ask, because requests carry the secret or a signature. */
function cloudEvents(exchange: Exchange, { max, windowSeconds }: Policy): void {
  const origin = exchange.header('webhook-request-origin') ?? '';
  if (exchange.method !== 'OPTIONS' || !ORIGIN.test(origin)) return wrongMethod(exchange);
  exchange.setHeader('allow', 'POST');
  exchange.setHeader('webhook-allowed-origin', origin);
  // Requests per minute.
  exchange.setHeader('webhook-allowed-rate', String(Math.max(1, Math.floor((max * 60) / windowSeconds))));
  exchange.answer(200, TEXT, '');
}

/** Answers POST with validationToken in the query (Microsoft Graph). Returns false if the request is not such a handshake. */
export function answersValidation(exchange: Exchange, { scheme }: Webhook): boolean {
  if (scheme.handshake !== 'microsoft-graph' || exchange.query === '') return false;
  const token = new URLSearchParams(exchange.query).get('validationToken');
  if (token === null || !CHALLENGE.test(token)) return false;
  exchange.answer(200, TEXT, token);
  return true;
}

/** Answers a handshake in a verified body. Returns false, and answers nothing, if the body is an event. */
export function answersVerified(exchange: Exchange, webhook: Webhook, body: Uint8Array): boolean {
  const answer = verifiedAnswers[webhook.scheme.handshake as keyof typeof verifiedAnswers];
  if (answer === undefined || body.length > HANDSHAKE_BYTES_MAX) return false;
  const name = handshakeNames[webhook.scheme.handshake as keyof typeof handshakeNames];
  if (name !== undefined && !mayContain(body, name)) return false;
  const value = parsed(body);
  return typeof value === 'object' && value !== null && answer(exchange, webhook, value as Members);
}

/** A longer body is an event. */
const HANDSHAKE_BYTES_MAX = 8_192;

/** Values of `type` or `event` that make a body a handshake. Discord uses a number instead. */
const handshakeNames = { slack: 'url_verification', zoom: 'endpoint.url_validation' };

/**
 * Whether the JSON text may contain the string, also when a letter is written as \u and its code. The search of an event of 1.6 KiB takes
 * 0.6 us; parsing would take 8 to 11 us.
 */
function mayContain(json: Uint8Array, text: string): boolean {
  const bytes = Buffer.from(json.buffer, json.byteOffset, json.length);
  return bytes.includes(text, 0, 'latin1') || bytes.includes('\\u', 0, 'latin1');
}

type Members = Record<string, unknown>;
const verifiedAnswers = {
  slack: (exchange: Exchange, _: Webhook, { type, challenge }: Members) => {
    if (type !== 'url_verification' || typeof challenge !== 'string') return false;
    if (!CHALLENGE.test(challenge)) return false;
    exchange.answer(200, TEXT, challenge);
    return true;
  },
  zoom: (exchange: Exchange, webhook: Webhook, { event, payload }: Members) => {
    const plainToken = (payload as Members | undefined)?.plainToken;
    if (event !== 'endpoint.url_validation' || typeof plainToken !== 'string') return false;
    if (!PLAIN_TOKEN.test(plainToken)) return false;
    const key = keyringAt(webhook, Date.now()).keys[0]!;
    const encryptedToken = createHmac('sha256', key).update(plainToken).digest('hex');
    exchange.answer(200, JSON_TYPE, JSON.stringify({ plainToken, encryptedToken }));
    return true;
  },
  discord: (exchange: Exchange, _: Webhook, { type, event }: Members) => {
    // Webhook events: type 0 is a PING, type 1 an event, with a member `event`. Interactions: type 1 is a PING, answered with type 1.
    if (type === 0) exchange.answer(204, JSON_TYPE, '');
    else if (type === 1 && event === undefined) exchange.answer(200, JSON_TYPE, '{"type":1}');
    else return false;
    return true;
  },
};
