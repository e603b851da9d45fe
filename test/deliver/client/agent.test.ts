/** The agent library against a simulated Weir, which fails on demand. test/cli/consume/consume.test.ts covers the loop below it. */
import { getEventListeners } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type HttpAnswer, openApiClient, repeater } from '../../../server/deliver/client/http.ts';
import {
  Agent,
  type AgentNotice,
  type DeliveredEvent,
  Retry,
  WeirError,
} from '../../../server/deliver/client/index.ts';
import { AgentSession, CREDENTIAL_WAIT_MS } from '../../../server/deliver/client/session.ts';
import { createCredential } from '../../../server/model/credential.ts';
import { type Arrived, PlayedWeir } from '../../cli/consume/weir.ts';
import { takeClock } from '../../helpers/clock.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { until } from '../../helpers/wait.ts';

let weir: PlayedWeir;
let url: string;
let agent: Agent;
let notices: AgentNotice[];

beforeEach(async () => {
  weir = new PlayedWeir();
  url = await weir.start();
  notices = [];
  agent = new Agent({ url, credential: weir.credential, notify: (notice) => notices.push(notice) });
});

afterEach(async () => {
  agent.close();
  await weir.stop();
});

/** With two at a time, none begins within 100 ms. */
const SLOW_MS = 210;

const states = () => weir.rows.map(({ state }) => state);

test('run acknowledges what the handler finishes, and returns what it refuses, with reason and delay', async () => {
  weir.add('\ufeff{"a":"ü"}');
  weir.add(Buffer.from([0, 255]));
  weir.add('later');
  weir.add('own');
  const seen: unknown[] = [];
  const counts = await agent.run(
    async (delivery) => {
      const { event } = delivery;
      if (event.text() === 'later') throw new Retry('busy', { delaySeconds: 7 });
      if (event.text() === 'own') return delivery.nack('not today', { delaySeconds: 9 });
      seen.push(event.body.length === 2 ? event.body : event.json(), event.event_type, event.headers['user-agent']);
    },
    { once: true, concurrency: 4, waitSeconds: 0 },
  );
  expect(counts).toEqual({ claimed: 4, done: 2, failed: 2, gone: 0 });
  expect(states()).toEqual(['done', 'done', 'pending', 'pending']);
  const type = ['order.created', 'a "test"'];
  expect(seen).toEqual([{ a: 'ü' }, ...type, Buffer.from([0, 255]), ...type]);
  const returned = weir.calls('nack').map(({ body }) => [body.reason, body.delay_seconds]);
  expect(returned.sort()).toEqual([
    ['busy', 7],
    ['not today', 9],
  ]);
  expect(notices.map(({ kind }) => kind)).toEqual(['failed', 'failed']);
});

test('the data of an event can be posted to a worker thread', async () => {
  weir.add('{"a":1}');
  const posted: unknown[] = [];
  await agent.run(({ event }) => posted.push(structuredClone(event)), { once: true, waitSeconds: 0 });
  const body = new TextEncoder().encode('{"a":1}');
  expect(posted).toEqual([expect.objectContaining({ event_type: 'order.created', body })]);
});

test('a claim takes along the acknowledgement of what was done before; the last one has a request of its own', async () => {
  for (let i = 0; i < 3; i++) weir.add();
  await agent.run(() => {}, { concurrency: 1, max: 3 });
  expect(states()).toEqual(Array(3).fill('done'));
  const receipts = weir.rows.map(({ id, attempt }) => `${id}.${attempt}`);
  expect(weir.calls('claim').map(({ body }) => body.ack)).toEqual([undefined, [receipts[0]]]);
  expect(weir.calls('ack').map(({ body }) => body.receipts)).toEqual([receipts.slice(1)]);
});

test.each(['lost', 'reset'] as const)(
  'what a claim took along is settled once when its answer is %s',
  async (fault) => {
    for (let i = 0; i < 3; i++) weir.add();
    weir.fault = (call, number) => (call === 'claim' && number === 1 ? fault : undefined);
    const counts = await agent.run(() => {}, { concurrency: 1, max: 2 });
    expect(counts).toEqual({ claimed: 2, done: 2, failed: 0, gone: 0 });
    expect(states().filter((state) => state === 'done')).toHaveLength(2);
  },
);

test('a stop during a claim sends what it took along again', async () => {
  const first = weir.add();
  const stop = new AbortController();
  weir.fault = (call, number) => {
    if (call !== 'claim' || number !== 1) return undefined;
    stop.abort();
    return 'reset';
  };
  const counts = await agent.run(() => {}, { concurrency: 1, signal: stop.signal });
  expect(counts).toEqual({ claimed: 1, done: 1, failed: 0, gone: 0 });
  expect(first.state).toBe('done');
  expect(weir.calls('ack')).toHaveLength(1);
});

test('a slow loop over deliveries has no more of them claimed than concurrency allows', async () => {
  for (let i = 0; i < 5; i++) weir.add(String(i));
  const bodies: string[] = [];
  for await (const delivery of agent.deliveries({ concurrency: 2, max: 5, waitSeconds: 0 })) {
    expect(states().filter((state) => state === 'leased').length).toBeLessThanOrEqual(2);
    bodies.push(delivery.event.text());
    await pause(SLOW_MS);
    expect(await delivery.ack()).toBe('done');
    expect(await delivery.nack('too late'), 'the first settlement counts').toBe('done');
  }
  expect(bodies).toEqual(['0', '1', '2', '3', '4']);
  expect(states()).toEqual(Array(5).fill('done'));
  expect(weir.calls('nack')).toEqual([]);
});

test('an abort releases at once what was not begun, and lets the loop settle the rest', async () => {
  for (let i = 0; i < 3; i++) weir.add();
  const stop = new AbortController();
  for await (const delivery of agent.deliveries({ concurrency: 3, signal: stop.signal })) {
    stop.abort();
    await until(() => weir.calls('nack').flatMap(({ body }) => body.receipts ?? []).length === 2);
    await delivery.ack();
  }
  expect(states().sort()).toEqual(['done', 'pending', 'pending']);
  expect(weir.calls('nack').map(({ body: { receipts: _, ...body } }) => body)).toEqual([{ release: true }]);
  expect(notices).toEqual([]);
});

test('deliveries that arrive together with the request to stop are released, and not counted', async () => {
  for (let i = 0; i < 2; i++) weir.add();
  const stop = new AbortController();
  let claimed = 0;
  const counts = {
    done: 0,
    failed: 0,
    gone: 0,
    get claimed() {
      return claimed;
    },
    set claimed(value) {
      claimed = value;
      stop.abort();
    },
  };
  await agent.run(() => expect.unreachable(), { concurrency: 2, signal: stop.signal, counts });
  expect(counts).toEqual({ claimed: 0, done: 0, failed: 0, gone: 0 });
  expect(weir.calls('nack').map(({ body }) => [body.receipts?.length, body.release])).toEqual([[2, true]]);
});

test('fast handlers find the next deliveries claimed', async () => {
  for (let i = 0; i < 200; i++) weir.add(String(i));
  const bodies: string[] = [];
  await agent.run(({ event }) => bodies.push(event.text()), { max: 200 });
  expect(bodies).toEqual(Array.from({ length: 200 }, (_, i) => String(i)));
  expect(weir.calls('claim').length, 'with one delivery in each, there would be 200').toBeLessThan(20);
  expect(weir.calls('nack')).toEqual([]);
});

test('the claim after a full one does not wait for the work on it', async () => {
  for (let i = 0; i < 400; i++) weir.add();
  let handled = 0;
  const counts = await agent.run(
    async () => {
      handled += 1;
      // The second delivery is the first of the second claim, which is large because the first handler was fast.
      if (handled === 2) await until(() => weir.calls('claim').length === 3);
    },
    { max: 400 },
  );
  expect(counts).toEqual({ claimed: 400, done: 400, failed: 0, gone: 0 });
});

test('what a slow handler cannot begin within a second is released, and nothing more is claimed ahead', async () => {
  for (let i = 0; i < 20; i++) weir.add();
  let handled = 0;
  const counts = { claimed: 0, done: 0, failed: 0, gone: 0 };
  const running = agent.run(
    async (delivery) => {
      handled += 1;
      if (handled === 3) await new Promise((resolve) => delivery.signal.addEventListener('abort', resolve));
    },
    { waitSeconds: 0, counts },
  );
  const leased = () => states().filter((state) => state === 'leased').length;
  await until(() => leased() > 1);
  await until(() => counts.claimed === 3);
  expect(leased()).toBe(1);
  expect(states().filter((state) => state === 'pending')).toHaveLength(17);
  // How many of the 17 were claimed depends on how fast the first two handlers were.
  expect(weir.calls('nack').flatMap(({ body }) => body.receipts).length).toBeGreaterThan(0);
  expect(weir.calls('nack').every(({ body }) => body.release)).toBe(true);
  agent.close();
  expect(await running).toEqual({ claimed: 3, done: 2, failed: 0, gone: 0 });
});

test('a filter acknowledges what it excludes', async () => {
  for (const body of ['keep', 'skip', 'keep']) weir.add(body);
  const seen: string[] = [];
  const options = { max: 3, concurrency: 3, filter: ({ body }: DeliveredEvent) => String(body) === 'keep' };
  for await (const delivery of agent.deliveries(options)) {
    seen.push(delivery.event.text());
    await delivery.ack();
  }
  expect(seen).toEqual(['keep', 'keep']);
  expect(states()).toEqual(['done', 'done', 'done']);
});

test.each([
  [Number.NaN, undefined, 'busy (delaySeconds is NaN)'],
  [86_401, 86_400, 'busy'],
  [-1, 0, 'busy'],
  [Number.POSITIVE_INFINITY, 86_400, 'busy'],
])('Retry after %d s asks for a delay that Weir accepts', async (delaySeconds, asked, reason) => {
  weir.add();
  const fail = () => Promise.reject(new Retry('busy', { delaySeconds }));
  expect(await agent.run(fail, { once: true })).toMatchObject({ failed: 1 });
  const [{ body }] = weir.calls('nack') as [Arrived];
  expect([body.delay_seconds, body.reason]).toEqual([asked, reason]);
  expect(notices).toMatchObject([{ kind: 'failed', reason }]);
});

test.each<[string, unknown, string]>([
  [
    'a fetch',
    Object.assign(new TypeError('fetch failed'), { cause: { code: 'ECONNREFUSED' } }),
    'fetch failed: ECONNREFUSED',
  ],
  ['an error without a message', new RangeError(), 'RangeError'],
  ['an object with a message', { message: 'no such row', code: 7 }, 'no such row'],
  ['another object', Object.assign(Object.create(null), { status: 409 }), '[Object: null prototype] { status: 409 }'],
  ['nothing', undefined, 'undefined'],
])('the reason of a delivery is what the handler throws: %s', async (_, thrown, reason) => {
  weir.add();
  expect(await agent.run(() => Promise.reject(thrown), { once: true })).toMatchObject({ failed: 1 });
  expect(weir.calls('nack')[0]!.body.reason).toBe(reason);
});

test('run throws without a handler', () => {
  expect(() => agent.run(undefined as never)).toThrow(TypeError);
});

test('nack refuses a delay that Weir would refuse', async () => {
  weir.add();
  const refusals: unknown[] = [];
  await agent.run(
    async (delivery) => {
      for (const delaySeconds of [Number.NaN, 86_401, -1])
        await delivery.nack('busy', { delaySeconds }).catch((error: unknown) => refusals.push(error));
    },
    { once: true },
  );
  expect(refusals).toEqual(Array(3).fill(expect.any(RangeError)));
  expect(states()).toEqual(['done']);
});

test('leaving the loop by an error returns the delivery, and the error arrives', async () => {
  const row = weir.add();
  const loop = async () => {
    for await (const delivery of agent.deliveries()) throw new Error(`broken at ${delivery.id}`);
  };
  await expect(loop()).rejects.toThrow(`broken at ${row.id}`);
  expect(row).toMatchObject({
    state: 'pending',
    reason: 'the loop over the deliveries ended before this one was settled',
  });
});

test('a lost lease aborts the signal of the handler', async () => {
  const clock = takeClock();
  const row = weir.add();
  const counts = await agent.run(
    async (_delivery, { signal }) => {
      weir.steal(row);
      clock.forward(2_000);
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      expect(signal.reason).toMatchObject({ name: 'WeirError', code: 'lease_lost' });
    },
    { once: true, leaseSeconds: 5 },
  );
  expect(counts).toEqual({ claimed: 1, done: 0, failed: 0, gone: 1 });
  expect(weir.calls('ack').concat(weir.calls('nack'))).toEqual([]);
});

test('an explicit extension asks for its own length', async () => {
  weir.add();
  await agent.run((delivery) => delivery.extend(600), { once: true });
  expect(weir.calls('extend')).toMatchObject([{ body: { lease_seconds: 600 } }]);
  expect(states()).toEqual(['done']);
});

test('429, 503 and lost connections are repeated, after Retry-After where the answer has one', async () => {
  const answered = (status: number, retryAfterMs: number | null): HttpAnswer => ({
    kind: 'answered',
    status,
    retryAfterMs,
    document: null,
  });
  const answers: HttpAnswer[] = [
    answered(503, 17_000),
    answered(429, 60_000),
    { kind: 'failed', name: 'ECONNRESET' },
    answered(408, null),
    answered(200, null),
  ];
  const waits: number[] = [];
  const repeat = repeater({ base: url, attemptsMax: 4, wait: async (ms) => void waits.push(ms) });
  const reply = await repeat(async () => answers.shift()!, new AbortController().signal);
  expect(reply).toMatchObject({ kind: 'answered', status: 200 });
  expect(waits.slice(0, 2)).toEqual([17_000, 60_000]);
  for (const ms of waits.slice(2)) expect(ms).toBeLessThanOrEqual(10_000);
  expect(waits).toHaveLength(4);
});

test('a server that never answers fails after attemptsMax, with a code and the fix', async () => {
  weir.fault = () => 'reset';
  const impatient = new Agent({ url, credential: weir.credential, attemptsMax: 2, notify: () => {} });
  const error = await impatient.me().catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(WeirError);
  expect(error).toMatchObject({
    code: 'unreachable',
    message: `${url}/ did not answer: ECONNRESET, after 2 attempts.`,
    fix: `Check that Weir runs and that this machine reaches ${url}/readyz.`,
  });
});

describe('a credential that is rotated while the agent runs', () => {
  const rotated = () => {
    weir.credential = createCredential('wa').text;
    weir.endSessions();
  };

  test('is waited for when it comes from a function, and reported once', async () => {
    let stored = weir.credential;
    const own = new Agent({ url, credential: () => stored, notify: (notice) => notices.push(notice) });
    const run = own.run(() => {}, { max: 1, waitSeconds: 0 });
    await until(() => weir.calls('claim').length > 0);
    rotated();
    await until(() => notices.length > 0);
    stored = weir.credential;
    weir.add();
    expect(await run).toMatchObject({ done: 1 });
    expect(notices).toEqual([
      {
        kind: 'retrying',
        cause: '401',
        afterMs: 1_000,
        message: `${url}/ refused the credential; waiting up to 5 minutes for another one.`,
      },
      { kind: 'recovered', message: 'The other credential was accepted.' },
    ]);
    own.close();
  });

  test('that is a text ends the run at once', async () => {
    const run = agent.run(() => {}, { waitSeconds: 0 });
    await until(() => weir.calls('claim').length > 0);
    rotated();
    await expect(run).rejects.toMatchObject({ code: 'credential_refused' });
    expect(notices).toEqual([]);
  });

  test('ends the run after five minutes without an accepted one, also when several others are refused', async () => {
    const first = weir.credential;
    let reads = 0;
    const waits: number[] = [];
    const client = openApiClient(new URL(url));
    const session = new AgentSession({
      client,
      // Every tenth look finds another one, and some fail.
      readCredential: async () => {
        if (waits.length === 0) return first;
        if (reads++ % 4 === 3) throw new Error('the store is away');
        return reads % 10 === 0 ? createCredential('wa').text : first;
      },
      repeat: repeater({ base: url, attemptsMax: Number.POSITIVE_INFINITY }),
      wait: async (ms) => void waits.push(ms),
      notify: (notice) => notices.push(notice),
    });
    const { signal } = new AbortController();
    const token = await session.token(signal);
    rotated();
    session.refused(token!);
    await expect(session.token(signal)).rejects.toMatchObject({ code: 'credential_refused', status: 401 });
    const waitedMs = waits.reduce((sum, ms) => sum + ms, 0);
    expect(waitedMs).toBeGreaterThanOrEqual(CREDENTIAL_WAIT_MS);
    expect(waitedMs).toBeLessThan(CREDENTIAL_WAIT_MS + 10_000);
    expect(notices).toHaveLength(1);
    expect(weir.calls('session').length).toBeGreaterThan(2);
    client.close();
  });

  test('is not waited for with a limit of attempts', async () => {
    const stored = weir.credential;
    const limited = new Agent({ url, credential: () => stored, attemptsMax: 3, notify: () => {} });
    const run = limited.run(() => {}, { waitSeconds: 0 });
    await until(() => weir.calls('claim').length > 0);
    rotated();
    await expect(run).rejects.toMatchObject({ code: 'credential_refused' });
  });
});

test('a closed agent ends its runs and calls', async () => {
  const run = agent.run(() => {}, {});
  await until(() => weir.calls('claim').length === 1);
  agent.close();
  expect(await run).toEqual({ claimed: 0, done: 0, failed: 0, gone: 0 });
  await expect(agent.me()).rejects.toMatchObject({ code: 'closed' });
});

test.each([
  [{ url: 'nowhere', credential: createCredential('wa').text }, 'Invalid URL'],
  [{ url: 'ftp://a/', credential: createCredential('wa').text }, 'ftp://a/ is not an http or https URL.'],
  [{ url: 'http://a/', credential: undefined as unknown as string }, 'The option credential is missing.'],
  [{ url: 'http://a/', credential: 'wu_secret' }, 'The option credential is not an agent credential (wa_…).'],
])('%j is refused at once', (options, message) => {
  expect(() => new Agent(options)).toThrow(message);
});

test.each([
  { concurrency: 0 },
  { concurrency: 1_001 },
  { leaseSeconds: 4 },
  { waitSeconds: 31 },
  { drainSeconds: 0.5 },
  { max: 0 },
  { max: Number.NaN },
])('a run with %j is refused', async (options) => {
  const [name, value] = Object.entries(options)[0]!;
  const refusal = `${name} is ${value}; allowed: a whole number from `;
  await expect((async () => agent.run(() => {}, options))()).rejects.toThrow(refusal);
  expect(() => agent.deliveries(options)).toThrow(refusal);
});

test('options that are undefined have their defaults', async () => {
  weir.add();
  const none = { max: undefined, counts: undefined, leaseSeconds: undefined, concurrency: undefined } as object;
  expect(await agent.run(() => {}, { ...none, once: true })).toMatchObject({ done: 1 });
  expect(weir.calls('claim')[0]!.body).toEqual({ max: 1, lease_seconds: 60, wait_seconds: 20 });
});

test('a sign-in whose first caller stops waiting is begun again for the others', async () => {
  const client = openApiClient(new URL(url));
  const repeat = repeater({
    base: url,
    attemptsMax: Number.POSITIVE_INFINITY,
    notify: (notice) => notices.push(notice),
  });
  const session = new AgentSession({ client, readCredential: async () => weir.credential, repeat, notify: null });
  weir.fault = () => ({ status: 503, headers: { 'Retry-After': '60' } });
  const first = new AbortController();
  const stopped = session.token(first.signal);
  const { signal } = new AbortController();
  const other = session.token(signal);
  await until(() => notices.length === 1);
  weir.fault = () => undefined;
  first.abort();
  expect(await stopped).toBeNull();
  expect(await other).toMatch(/^ws_/);
  // A run of years renews its session thousands of times.
  await until(() => getEventListeners(signal, 'abort').length === 0);
  client.close();
});

test('a function credential that fails is called again, at most attemptsMax times', async () => {
  weir.add();
  let calls = 0;
  const credential = async () => {
    calls += 1;
    if (calls === 1) throw new Error('the vault is sealed');
    return weir.credential;
  };
  const cause = 'The function credential failed: the vault is sealed';
  const vaulted = new Agent({ url, credential, notify: (notice) => notices.push(notice) });
  expect(await vaulted.run(() => {}, { once: true })).toMatchObject({ done: 1 });
  expect(notices).toMatchObject([{ kind: 'retrying', cause }, { kind: 'recovered' }]);

  calls = 0;
  const impatient = new Agent({ url, credential, notify: () => {}, attemptsMax: 1 });
  await expect(impatient.me()).rejects.toMatchObject({ code: 'credential_unreadable', message: cause });
});

test('a credential file is read again for each session, and its absence is named', async () => {
  const credentialFile = join(temporaryDirectory(), 'credential');
  const filed = new Agent({ url, credentialFile });
  await expect(filed.run(() => {})).rejects.toMatchObject({
    code: 'credential_unreadable',
    message: `${credentialFile} cannot be read: there is no such file.`,
  });
  await writeFile(credentialFile, `${weir.credential}\n`);
  weir.add();
  await filed.run(() => {}, { max: 1 });
  weir.credential = createCredential('wa').text;
  await writeFile(credentialFile, weir.credential);
  weir.endSessions();
  weir.add();
  await filed.run(() => {}, { max: 1 });
  expect(states()).toEqual(['done', 'done']);
});
