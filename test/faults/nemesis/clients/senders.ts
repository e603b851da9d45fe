/** Senders of the run: signed requests of every kind, repeated as senders do, each with its response in the history. */
import { createHash, createHmac, randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { History, Part, SentRequest, Webhook } from '../history.ts';
import type { World } from '../world/world.ts';

const LANES = 24;
const PAUSE_MAX_MS = 120;
const REPEATS_MAX = 4;
/** Shares of requests. */
const FORGED = 0.02;
const GIVEN_UP = 0.01;
const GIVEN_UP_MS = 30;
const BATCHES = 0.5;
const BINARY = 0.1;
const LARGE = 0.03;
const REPEATED = 0.8;
const REPEATED_AFTER_ANSWER = 0.04;

const any = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)]!;
export const hashOf = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex');

/** A new secret for the scheme of a webhook. */
export function newSecret({ scheme }: Pick<Webhook, 'scheme'>): string {
  if (scheme === 'basic') return `user:${randomBytes(12).toString('hex')}`;
  if (scheme === 'standard-webhooks') return `whsec_${randomBytes(24).toString('base64')}`;
  return randomBytes(20).toString('hex');
}

/** Headers as a sender computes them, independent of Weir's own code. */
function sign({ scheme }: Webhook, secret: string, body: Buffer, id: string, nowMs: number): Record<string, string> {
  const seconds = String(Math.floor(nowMs / 1_000));
  const hmac = (key: string | Buffer, ...parts: (string | Buffer)[]) => {
    const digest = createHmac('sha256', key);
    for (const part of parts) digest.update(part);
    return digest;
  };
  if (scheme === 'stripe')
    return { 'stripe-signature': `t=${seconds},v1=${hmac(secret, `${seconds}.`, body).digest('hex')}` };
  if (scheme === 'basic') return { authorization: `Basic ${Buffer.from(secret).toString('base64')}` };
  if (scheme !== 'standard-webhooks')
    return { 'x-hub-signature-256': `sha256=${hmac(secret, body).digest('hex')}`, 'x-github-event': 'push' };
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const signature = hmac(key, `${id}.${seconds}.`, body).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': seconds, 'webhook-signature': `v1,${signature}` };
}

let marks = 0;

/** A body that begins with its mark. */
function newPart(key: string, single: boolean): Part & { body: Buffer } {
  const mark = `m${process.pid}-${marks++}`;
  const passes = Math.random() < 0.5;
  const filling = 'x'.repeat(Math.random() * (Math.random() < LARGE ? 250_000 : 900));
  const document = { mark, key, passes: passes ? 1 : 0, filling: `é\u2028${filling}` };
  const isBinary = single && Math.random() < BINARY;
  const body = isBinary
    ? Buffer.concat([Buffer.from(`{"mark":"${mark}"}`), randomBytes(40)])
    : Buffer.from(JSON.stringify(document));
  return { mark, hash: hashOf(body), passes: isBinary ? null : passes, body };
}

/** Sends one request and keeps its response. */
export async function sendOnce(
  { history, instances }: Pick<World, 'history' | 'instances'>,
  webhook: Webhook,
  key: string,
  { instance = any(instances), forged = false, givesUp = false } = {},
): Promise<SentRequest> {
  const secret = webhook.secrets.at(-1)!;
  const batch = webhook.batches === true && Math.random() < BATCHES;
  const parts = Array.from({ length: batch ? 1 + Math.floor(Math.random() * 8) : 1 }, () =>
    newPart(key, webhook.batches === undefined),
  );
  const body = Buffer.concat(parts.flatMap((part, at) => (at === 0 ? [part.body] : [Buffer.from('\n'), part.body])));
  const marker = randomBytes(6).toString('hex');
  const sent: SentRequest = {
    webhook: webhook.name,
    key,
    marker,
    forged,
    batch,
    parts: parts.map(({ mark, hash, passes }) => ({ mark, hash, passes })),
    sentAt: Date.now(),
    answeredAt: Number.POSITIVE_INFINITY,
    status: null,
    ids: [],
    expiresAt: Number.POSITIVE_INFINITY,
  };
  history.requests.push(sent);
  const headers = {
    'content-type': 'application/json',
    'content-length': String(body.length),
    'x-marker': marker,
    ...(webhook.keyHeader === 'x-key' && { 'x-key': key }),
    ...sign(webhook, forged ? newSecret(webhook) : secret, body, key, Date.now() + history.offsetMs),
  };
  const path = `/in/${webhook.id}${batch ? '/batch' : ''}`;
  const endAfterMs = givesUp ? Math.random() * GIVEN_UP_MS : undefined;
  const reply = await instance.client.send({ path, headers, body, endAfterMs }).catch(() => null);
  sent.answeredAt = Date.now();
  if (reply === null) return sent;
  sent.status = reply.status;
  sent.ids = reply.body?.ids ?? [reply.body?.id].filter(Boolean);
  // After rotations without a response, one of the earlier secrets may be the current one.
  if (sent.status === 403 && !forged && secret === webhook.secrets.at(-1))
    webhook.secrets.unshift(webhook.secrets.pop()!);
  checkStatus(history, reply, `a request of ${webhook.name}`);
  return sent;
}

/** 503 with Retry-After is the only response of a fault. */
export function checkStatus(
  history: History,
  { status, headers, text }: { status: number; headers: NodeJS.Dict<string | string[]>; text: string },
  what: string,
): void {
  if (status === 503 ? headers['retry-after'] === undefined : status >= 500)
    history.observe('a status that is not documented', `${status} for ${what}: ${text}`);
}

/** Sends until `stop`. */
export function startSenders(world: World): { stop(): Promise<void> } {
  let stopped = false;
  let keys = 0;
  const lane = async () => {
    while (!stopped) {
      const webhook = any(world.webhooks);
      const key = `k${world.history.beganAt}-${keys++}`;
      const forged = Math.random() < FORGED;
      for (let turn = 0; turn <= REPEATS_MAX && !stopped; turn++) {
        const sent = await sendOnce(world, webhook, key, { forged, givesUp: Math.random() < GIVEN_UP });
        const failed = sent.status === null || sent.status >= 500;
        if (forged || Math.random() > (failed ? REPEATED : REPEATED_AFTER_ANSWER)) break;
        if (failed) await delay(100 + Math.random() * 700);
      }
      await delay(Math.random() * PAUSE_MAX_MS);
    }
  };
  const running = Promise.all(Array.from({ length: LANES }, lane));
  return {
    async stop() {
      stopped = true;
      await running;
    },
  };
}
