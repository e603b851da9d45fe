import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { FAILURES_MAX, TargetBreaker } from '../../../server/cli/consume/breaker.ts';
import { type Attempted, attemptLine, forwarder } from '../../../server/cli/consume/forward.ts';
import { type Signing, signingReader } from '../../../server/cli/consume/signing.ts';
import {
  type ForwardedDelivery,
  forwardRequest,
  type HttpTarget,
  openTarget,
} from '../../../server/cli/consume/target.ts';
import { NotBegun } from '../../../server/deliver/client/delivery.ts';
import { Retry } from '../../../server/deliver/client/index.ts';
import { presetNamed } from '../../../server/model/signatures/presets.ts';
import { type Answering, ForwardTarget } from '../../helpers/forward-target.ts';
import { until } from '../../helpers/wait.ts';

const BODY = Buffer.from([0x7b, 0x00, 0xff, 0x0a, 0x7d]);

function delivery(headers: Record<string, string> = {}, body = BODY): ForwardedDelivery {
  const event = {
    id: '01a20294-70a5-7a69-8c1d-e052f6c99d73',
    webhook_id: '9ee7bda0-3c68-48bc-bb37-6d2086c887bc',
    webhook_name: 'orders',
    event_type: 'push',
    content_type: 'application/json',
    headers,
    body,
  };
  return { id: '01a20294-70a5-7a69-8c1d-000000000001', attempt: 2, event };
}

const url = new URL('http://127.0.0.1:3000/hook');
const headersOf = (headers: Record<string, string>, signing: Signing = null) =>
  forwardRequest(delivery(headers), signing, url, Date.now()).headers;

describe('the request', () => {
  test('has the stored headers without those of the connection and of the first receiver, and the ids of the delivery', () => {
    const stored = {
      'content-type': 'text/plain',
      'x-github-event': 'push',
      'user-agent': 'sender/1',
      connection: 'keep-alive, X-Of-Connection',
      'x-of-connection': '1',
      'keep-alive': 'timeout=5',
      'transfer-encoding': 'chunked',
      te: 'trailers',
      upgrade: 'h2c',
      host: 'weir.example.org',
      'content-length': '99',
      expect: '100-continue',
      'weir-delivery-id': 'of the sender',
    };
    expect(headersOf(stored)).toEqual({
      'content-type': 'text/plain',
      'x-github-event': 'push',
      'user-agent': 'sender/1',
      'content-length': '5',
      'weir-delivery-id': delivery().id,
      'weir-event-id': delivery().event.id,
      'weir-attempt': '2',
    });
  });

  test('sends text beyond Latin-1 as UTF-8', () => {
    expect(Buffer.from(headersOf({ 'x-name': 'ü €' })['x-name']!, 'latin1').toString('utf8')).toBe('ü €');
  });

  test('keeps the id of the sender, which is signed', () => {
    const { definition } = presetNamed('standard-webhooks')!;
    const signing = { definition, key: Buffer.from('c2VjcmV0') };
    expect(headersOf({ 'webhook-id': 'msg_1' }, signing)['webhook-id']).toBe('msg_1');
    expect(headersOf({}, signing)['webhook-id']).toBe(delivery().event.id);
  });

  test.each(['mailgun', 'microsoft-graph'])('leaves the signature in the body to the sender: %s', (name) => {
    const { definition } = presetNamed(name)!;
    const request = forwardRequest(delivery(), { definition, key: Buffer.from('secret') }, url, Date.now());
    expect(request.body).toEqual(BODY);
  });
});

describe('the scheme of a webhook', () => {
  const stored = {
    id: 'a',
    name: 'orders',
    url: 'http://x/in/a',
    scheme_definition: null,
    signature_header: null,
    public_key: null,
  };

  test('is read once for concurrent deliveries, again after ten minutes, and kept while it cannot be read', async () => {
    let nowMs = 0;
    const answers = [null, { ...stored, signature_scheme: 'stripe' }, null, { ...stored, signature_scheme: 'github' }];
    let reads = 0;
    const read = async () => {
      const answer = answers[reads++];
      if (answer) return answer;
      throw new Error('away');
    };
    const signingOf = signingReader({ secret: 's', privateKey: null }, read, () => nowMs);
    const headerNow = async () => (await signingOf('a'))?.definition.header;
    await expect(headerNow()).rejects.toThrow('away');
    expect(await Promise.all([headerNow(), headerNow()])).toEqual(['stripe-signature', 'stripe-signature']);
    expect(reads).toBe(2);
    nowMs = 600_000;
    expect(await headerNow()).toBe('stripe-signature');
    expect(reads).toBe(3);
    nowMs = 1_200_000;
    expect(await headerNow()).toBe('x-hub-signature-256');
    expect(reads).toBe(4);
  });
});

describe('a target', () => {
  let receiver: ForwardTarget;
  let target: HttpTarget;
  let breaker: TargetBreaker;
  let reports: string[];
  let attempts: Attempted[];
  beforeEach(async () => {
    receiver = new ForwardTarget();
    await receiver.start();
    reports = [];
    breaker = new TargetBreaker({
      target: { name: 'target', probe: async () => false },
      report: (line) => reports.push(line),
      stop: new AbortController().signal,
      wait: () => new Promise(() => {}),
    });
    attempts = [];
  });
  afterEach(async () => {
    target.close();
    await receiver.stop();
  });

  function open(url = new URL(receiver.url), timeoutMs = 60_000): void {
    target = openTarget(url, { connectionsMax: 4, timeoutMs });
  }

  /** What becomes of a delivery: null: done. */
  async function send(signal = new AbortController().signal): Promise<Retry | null> {
    const attempted = (attempt: Attempted) => attempts.push(attempt);
    const handler = forwarder({ target, breaker, signingOf: async () => null, attempted });
    try {
      await handler(delivery(), { signal });
      return null;
    } catch (error) {
      if (error instanceof Retry) return error;
      throw error;
    }
  }

  function forward(timeoutMs = 60_000, signal = new AbortController().signal) {
    open(new URL(receiver.url), timeoutMs);
    return send(signal);
  }

  test('gets the method, the path and the exact bytes, over one connection', async () => {
    open();
    expect([await send(), await send()]).toEqual([null, null]);
    expect(receiver.arrived[0]).toMatchObject({ method: 'POST', path: '/hook', body: BODY });
    expect(receiver.connections).toBe(1);
  });

  test('gets the user and the password of its URL, which no message has', async () => {
    receiver.answering = (response) => response.writeHead(500).end();
    const secret = new URL(receiver.url.replace('//', '//user:a-password@').concat('?token=a-token'));
    open(secret);
    const verdict = await send();
    expect(receiver.arrived[0]).toMatchObject({
      path: '/hook?token=a-token',
      headers: { authorization: `Basic ${Buffer.from('user:a-password').toString('base64')}` },
    });
    expect(verdict).toMatchObject({ message: `${receiver.url}: 500` });
    expect(target.url.href).toBe(`${receiver.url}?token=a-token`);
  });

  const RETRY_AFTER = { 'Retry-After': '7' };
  const LONG = { 'Retry-After': '99999' };
  const SHORT_MS = 100;
  const wrong: [string, Answering, RegExp, number | undefined, number?][] = [
    ['500', (response) => response.writeHead(500).end(), /\/hook: 500$/, undefined],
    ['429', (response) => response.writeHead(429, RETRY_AFTER).end(), /: 429$/, 7],
    ['503 with a long wait', (response) => response.writeHead(503, LONG).end(), /: 503$/, 3600],
    [
      '301',
      (response) => response.writeHead(301, { Location: '/other' }).end(),
      /: 301 to \/other, redirects are not followed$/,
      undefined,
    ],
    ['304 without Location', (response) => response.writeHead(304).end(), /: 304$/, undefined],
    ['a reset', (_, { socket }) => socket.resetAndDestroy(), /: ECONNRESET$/, undefined],
    ['no answer in time', () => {}, /: ETIMEDOUT$/, undefined, SHORT_MS],
  ];
  test.each(wrong)('that answers with %s fails the delivery', async (_, answering, reason, delaySeconds, timeoutMs) => {
    receiver.answering = answering;
    expect(await forward(timeoutMs)).toMatchObject({
      message: expect.stringMatching(reason),
      delaySeconds,
    });
    expect(receiver.arrived.map(({ path }) => path)).not.toContain('/other');
  });

  const endless = (response: Parameters<Answering>[0]) => {
    const more = (): void =>
      void (response.destroyed || response.write(Buffer.alloc(16_384), () => setImmediate(more)));
    more();
  };
  const right: [string, Answering][] = [
    ['late', (response) => setImmediate(() => response.writeHead(200).end('ok'))],
    ['with an endless body', (response) => endless(response.writeHead(200))],
    [
      'with a body that is cut off',
      (response, { socket }) => response.writeHead(200, { 'Content-Length': '10' }).write('a', () => socket.destroy()),
    ],
  ];
  test.each(right)('that answers 200 %s has received the delivery', async (_, answering) => {
    receiver.answering = answering;
    expect(await forward()).toBeNull();
  });

  test('that is absent and comes back receives the next attempt', async () => {
    await receiver.stop();
    expect(await forward()).toMatchObject({ message: expect.stringMatching(/: ECONNREFUSED$/) });
    expect(await target.probe()).toBe(false);
    await receiver.start();
    expect(await target.probe()).toBe(true);
    expect(await forward()).toBeNull();
  });

  test('that closed an idle connection is called again over a new one', async () => {
    let used = 0;
    receiver.answering = (response, { socket }) => {
      used += 1;
      // The second request on the first connection finds it closed.
      if (used === 2) socket.destroy();
      else response.writeHead(200).end();
    };
    open();
    expect([await send(), await send()]).toEqual([null, null]);
    expect(receiver.connections).toBe(2);
  });

  const refused: [number, boolean][] = [
    [400, true],
    [404, true],
    [301, true],
    [408, false],
    [429, false],
    [502, false],
  ];
  test.each(refused)('that answers %d to every event can be used: %j', async (status, isUsable) => {
    receiver.answering = (response) => response.writeHead(status).end();
    for (let i = 0; i < FAILURES_MAX; i++) expect(await forward()).toBeInstanceOf(Retry);
    expect(reports).toHaveLength(isUsable ? 0 : 1);
  });

  test('is not judged by requests that were stopped', async () => {
    const stop = new AbortController();
    receiver.answering = () => stop.abort();
    expect(await forward(60_000, stop.signal)).toMatchObject({ message: expect.stringMatching(/: stopped$/) });
    for (let i = 0; i < FAILURES_MAX; i++) await forward(60_000, stop.signal);
    expect(attempts.map(({ problem }) => problem)).toEqual(Array(FAILURES_MAX + 1).fill('stopped'));
    expect(reports).toEqual([]);
  });
});

describe('the breaker', () => {
  let reports: string[];
  let stop: AbortController;
  let signal: AbortSignal;
  let probes: { ms: number; answer: (isAccepted: boolean) => void }[];
  let breaker: TargetBreaker;
  beforeEach(() => {
    reports = [];
    probes = [];
    stop = new AbortController();
    signal = new AbortController().signal;
    let answers: Promise<boolean>;
    breaker = new TargetBreaker({
      target: { name: 'target', probe: () => answers },
      report: (line) => reports.push(line),
      stop: stop.signal,
      wait: async (ms) => {
        answers = new Promise((resolve) => probes.push({ ms, answer: resolve }));
      },
    });
  });
  const fail = (times: number) => {
    for (let i = 0; i < times; i++) breaker.failed('500');
  };
  /** Whether a request may be sent now. */
  const isSent = () => Promise.race([breaker.enter(signal).then(() => true), turn(false)]);

  test('opens after failures in a row, and not when one request between them succeeded', async () => {
    fail(FAILURES_MAX - 1);
    breaker.succeeded();
    fail(FAILURES_MAX - 1);
    expect(await isSent()).toBe(true);
    breaker.failed('500');
    expect(await isSent()).toBe(false);
    expect(reports).toHaveLength(1);
  });

  test('sends one request when a probe is accepted, and the others when it has succeeded', async () => {
    fail(FAILURES_MAX);
    // This request was in flight when the breaker opened.
    breaker.succeeded();
    const waiting = [0, 1, 2].map(() => breaker.enter(signal));
    let sent = 0;
    for (const one of waiting) one.then(() => (sent += 1));
    probes[0]!.answer(true);
    await until(() => sent === 1);
    breaker.failed('500');
    await until(() => probes.length === 2);
    probes[1]!.answer(true);
    await until(() => sent === 2);
    // It was stopped, which says nothing of the target: the next one is tried.
    breaker.undecided();
    await until(() => sent === 3);
    expect(reports).toHaveLength(1);
    breaker.succeeded();
    expect(await isSent()).toBe(true);
    expect(reports[1]).toBe('target answers again; deliveries are forwarded.');
  });

  test('probes after 1, 2, 4 s and so on up to 30 s, and after 1 s again in the next outage', async () => {
    fail(FAILURES_MAX);
    for (let i = 1; i <= 7; i++) {
      await until(() => probes.length === i);
      probes[i - 1]!.answer(i === 7);
    }
    for (const [i, seconds] of [1, 2, 4, 8, 16, 30, 30].entries()) {
      expect(probes[i]!.ms).toBeGreaterThanOrEqual(seconds * 500);
      expect(probes[i]!.ms).toBeLessThanOrEqual(seconds * 1000);
    }
    await breaker.enter(signal);
    breaker.succeeded();
    fail(FAILURES_MAX);
    await until(() => probes.length === 8);
    expect(probes[7]!.ms).toBeLessThanOrEqual(1000);
  });

  test('releases a delivery that waits when the command is stopped, and when its own work is to stop', async () => {
    fail(FAILURES_MAX);
    const lost = new AbortController();
    const waiting = [breaker.enter(lost.signal), breaker.enter(signal)];
    lost.abort();
    await expect(waiting[0]).rejects.toBeInstanceOf(NotBegun);
    stop.abort();
    await expect(waiting[1]).rejects.toBeInstanceOf(NotBegun);
  });
});

describe('a line', () => {
  const at = new Date('2026-11-22T19:00:01Z');
  const attempted = { delivery: delivery(), status: 500, problem: '500', ms: 12.4 };

  test('has time, method, type, bytes, milliseconds and result, and colours only when asked for', () => {
    const line = attemptLine(attempted, at, { json: false, colour: false, names: true });
    expect(line).toMatch(/^\d\d:\d\d:01 {2}POST {2}push +5 B +12 ms {2}500 {2}\(attempt 2\) {2}orders\n$/);
    expect(attemptLine(attempted, at, { json: false, colour: true, names: false })).toContain('\x1b[31m500\x1b[39m');
  });

  test('shows control characters of the sender as escapes', () => {
    const event = { ...delivery().event, event_type: 'a\x1b[2J\nb' };
    const line = attemptLine({ ...attempted, delivery: { ...delivery(), event } }, at, {
      json: false,
      colour: false,
      names: false,
    });
    expect(line).not.toMatch(/[^\P{Cc}\n]/u);
    expect(line.trimEnd()).not.toContain('\n');
  });

  test('is one JSON document with --json', () => {
    expect(JSON.parse(attemptLine(attempted, at, { json: true, colour: false, names: false }))).toEqual({
      at: '2026-11-22T19:00:01.000Z',
      delivery_id: delivery().id,
      event_id: delivery().event.id,
      webhook_id: delivery().event.webhook_id,
      event_type: 'push',
      method: 'POST',
      bytes: 5,
      attempt: 2,
      status: 500,
      problem: '500',
      ms: 12,
    });
  });
});
