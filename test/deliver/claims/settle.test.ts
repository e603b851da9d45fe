/** ack, nack and extend: what happens to a lease, by its receipt. */
import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { Query } from '../../../server/store/connect/pool.ts';
import { DatabaseUnavailable } from '../../../server/store/connect/unavailable.ts';
import { uuidText, uuidv7 } from '../../../server/store/ids.ts';
import { claimDeliveries } from '../../../server/store/queries/claims/claim.ts';
import { parseReceipt } from '../../../server/store/queries/claims/receipts.ts';
import { readAttempts } from '../../../server/store/queries/deliveries/history.ts';
import {
  addAgent,
  type Delivery,
  letPass,
  rowOf,
  send,
  startAgentApp,
  storeEvents,
  subscribed,
  type TestAgent,
} from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { orderOf } from '../../helpers/claims.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(() => startAgentApp({ DELIVERY_MAX_ATTEMPTS: 3 }));
/** With enough attempts for long back-offs. */
const patient = shared(() => startAgentApp({ DELIVERY_MAX_ATTEMPTS: 1000 }));
let webhook: TestWebhook;
let agent: TestAgent;

/** A new agent of a new webhook, so that tests do not share deliveries. */
async function oneLeased(order = {}): Promise<Delivery> {
  ({ webhook, agent } = await subscribed(app));
  await send(webhook);
  return agent.claimOne(order);
}
const row = (delivery: Delivery) => rowOf(app.database, delivery.id);
const done = (...receipts: string[]) => ({ done: receipts, gone: [] });
const gone = (...receipts: string[]) => ({ done: [], gone: receipts });

describe('an acknowledged delivery', () => {
  test('is done permanently, and a repeated acknowledgement reports it again', async () => {
    const delivery = await oneLeased();
    for (let i = 0; i < 3; i++) expect(await agent.ack([delivery.receipt])).toEqual(done(delivery.receipt));
    expect(await row(delivery)).toMatchObject({ state: 'done', attempts: 1, finished: true });
    await letPass(app.database, 7200);
    expect(await agent.claim()).toEqual([]);
  });

  test('cannot be refused or extended any more', async () => {
    const { receipt } = await oneLeased();
    await agent.ack([receipt]);
    expect(await agent.nack([receipt])).toEqual(gone(receipt));
    expect(await agent.extend([receipt], 60)).toEqual(gone(receipt));
  });

  test('is accepted after its lease expired, if no other consumer claimed the delivery', async () => {
    const { receipt } = await oneLeased({ lease_seconds: 5 });
    await letPass(app.database, 100);
    expect(await agent.ack([receipt])).toEqual(done(receipt));
    expect(await agent.claim()).toEqual([]);
  });
});

describe('a lease is lost', () => {
  test('to another consumer of the same agent', async () => {
    const first = await oneLeased();
    await letPass(app.database, 3600);
    const second = await agent.claimOne();
    for (const lost of [agent.ack([first.receipt]), agent.nack([first.receipt]), agent.extend([first.receipt], 60)])
      expect(await lost).toEqual(gone(first.receipt));
    expect(await row(second)).toMatchObject({ state: 'leased', attempts: 2 });
    expect(await agent.ack([second.receipt])).toEqual(done(second.receipt));
    expect(await agent.ack([first.receipt])).toEqual(gone(first.receipt));
  });

  test('and remains lost when it is sent together with a valid receipt', async () => {
    const first = await oneLeased();
    await letPass(app.database, 3600);
    const second = await agent.claimOne();
    for (let i = 0; i < 2; i++)
      expect(await agent.ack([first.receipt, second.receipt])).toEqual({
        done: [second.receipt],
        gone: [first.receipt],
      });
  });

  test('after a nack: its acknowledgement is too late', async () => {
    const { receipt } = await oneLeased();
    await agent.nack([receipt], { delay_seconds: 3600 });
    expect(await agent.ack([receipt])).toEqual(gone(receipt));
    expect(await agent.extend([receipt], 60)).toEqual(gone(receipt));
  });

  test('for a receipt of another agent', async () => {
    const delivery = await oneLeased();
    const other = await addAgent(app, [webhook]);
    for (const settled of [
      other.ack([delivery.receipt]),
      other.nack([delivery.receipt]),
      other.extend([delivery.receipt], 60),
    ])
      expect(await settled).toEqual(gone(delivery.receipt));
    expect(await row(delivery)).toMatchObject({ state: 'leased', attempts: 1 });
  });
});

describe('several receipts', () => {
  test('are reported separately, in their order, as often as they were sent', async () => {
    const first = await oneLeased();
    await send(webhook);
    const second = await agent.claimOne();
    const unknownReceipt = `${uuidText(uuidv7(Date.now(), randomBytes(16)))}.1`;
    const otherAttempt = second.receipt.replace(/1$/, '2');
    const given = [
      unknownReceipt,
      second.receipt,
      'garbage',
      '',
      first.receipt,
      otherAttempt,
      second.receipt,
      'ffffffff-ffff-7fff-bfff-ffffffffffff.1',
    ];
    expect(await agent.ack(given)).toEqual({
      done: [second.receipt, first.receipt, second.receipt],
      gone: [unknownReceipt, 'garbage', '', otherAttempt, 'ffffffff-ffff-7fff-bfff-ffffffffffff.1'],
    });
  });

  test('of invalid text are gone', async () => {
    await oneLeased();
    const garbage = [
      "'; drop table events; --",
      '..',
      '0.0',
      '\0',
      '🙂.1',
      `${'0'.repeat(8)}-0000-0000-0000-${'0'.repeat(12)}.1`,
    ];
    expect(await agent.ack(garbage)).toEqual(gone(...garbage));
  });

  test('are settled once by concurrent requests', async () => {
    const delivery = await oneLeased();
    const answers = await Promise.all(Array.from({ length: 20 }, () => agent.ack([delivery.receipt])));
    for (const answer of answers) expect(answer).toEqual(done(delivery.receipt));
  });
});

describe('a nack', () => {
  test('is idempotent, keeps its reason, and counts the attempt', async () => {
    const delivery = await oneLeased();
    for (let i = 0; i < 2; i++)
      expect(await agent.nack([delivery.receipt], { delay_seconds: 60, reason: 'no room' })).toEqual(
        done(delivery.receipt),
      );
    expect(await row(delivery)).toMatchObject({ state: 'pending', attempts: 1, reason: 'no room', finished: false });
  });

  test.each([0, 0.5, 60, 86_400])('with a delay of %d s is claimable after that time', async (seconds) => {
    const delivery = await oneLeased();
    await agent.nack([delivery.receipt], { delay_seconds: seconds });
    const { seconds: left } = await row(delivery);
    expect(left).toBeGreaterThan(seconds - 50);
    expect(left).toBeLessThanOrEqual(seconds);
    if (seconds > 5) expect(await agent.claim()).toEqual([]);
    await letPass(app.database, seconds);
    expect(await agent.claimOne()).toMatchObject({ id: delivery.id, attempt: 2 });
  });

  test.each([
    [1, 2.5, 5],
    [2, 5, 10],
    [5, 40, 80],
    [9, 640, 1280],
    [11, 1800, 3600],
    [900, 1800, 3600],
  ])('without a delay backs off: after attempt %d the delay is %d to %d s', async (attempt, least, most) => {
    const { webhook, agent } = await subscribed(patient);
    await storeEvents(patient.database, webhook.id, 12);
    const text = 'update deliveries set attempts = $1 where agent_id = $2';
    await patient.sql(text, attempt - 1, agent.id);
    const deliveries = await agent.claim();
    await agent.nack(deliveries.map(({ receipt }) => receipt));
    const ofDelivery = (deliveryId: string) => readAttempts(patient.database, { deliveryId }, Date.now());
    const waits = await Promise.all(
      deliveries.map(async ({ id }) => (await ofDelivery(id)).get(id)!.at(-1)!.retry_seconds!),
    );
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(least);
    expect(Math.max(...waits)).toBeLessThanOrEqual(most);
    // Jitter: deliveries that failed together are not retried together. Kept to a tenth of a second.
    expect(new Set(waits).size).toBeGreaterThan(3);
  });

  test('without attempts left creates a dead letter with its reason', async () => {
    let delivery = await oneLeased();
    for (let attempt = 1; attempt <= 3; attempt++) {
      expect(delivery.attempt).toBe(attempt);
      await agent.nack([delivery.receipt], { delay_seconds: 0, reason: `failure ${attempt}` });
      if (attempt < 3) delivery = await agent.claimOne();
    }
    expect(await row(delivery)).toMatchObject({ state: 'dead', attempts: 3, reason: 'failure 3', finished: true });
    expect(await agent.nack([delivery.receipt])).toEqual(done(delivery.receipt));
    expect(await agent.ack([delivery.receipt])).toEqual(gone(delivery.receipt));
    await letPass(app.database, 7200);
    expect(await agent.claim()).toEqual([]);
  });

  test('with release does not count the attempt, also the last one, and can be claimed at once', async () => {
    let delivery = await oneLeased();
    for (const attempt of [1, 2]) {
      await agent.nack([delivery.receipt], { delay_seconds: 0 });
      delivery = await agent.claimOne();
      expect(delivery.attempt).toBe(attempt + 1);
    }
    const counted = await app.metric('weir_deliveries_settled_total');
    for (let i = 0; i < 2; i++)
      expect(await agent.nack([delivery.receipt], { release: true })).toEqual(done(delivery.receipt));
    expect(await app.metric('weir_deliveries_settled_total')).toBe(counted);
    expect(await row(delivery)).toMatchObject({ state: 'pending', attempts: 2, finished: false });
    expect(await agent.ack([delivery.receipt])).toEqual(gone(delivery.receipt));
    expect(await agent.claimOne()).toMatchObject({ id: delivery.id, attempt: 3 });
    const both = { receipts: [delivery.receipt], release: true, delay_seconds: 1 };
    expect((await agent.post('nack', both)).status).toBe(422);
  });

  test.each([
    ['of 500 characters', '語'.repeat(500), '語'.repeat(500)],
    ['of 501, cut', '語'.repeat(501), '語'.repeat(500)],
    ['of 501 surrogate pairs, cut between them', '😀'.repeat(501), '😀'.repeat(500)],
    ['with quotes and line ends', `it's "so"\r\n\\`, `it's "so"\r\n\\`],
    ['with NUL', 'a\0b', 'a\ufffdb'],
    ['with half a surrogate pair', '\ud83d', '\ufffd'],
  ])('stores a reason %s', async (_what, reason, kept) => {
    const delivery = await oneLeased();
    expect((await agent.post('nack', { receipts: [delivery.receipt], reason })).status).toBe(200);
    expect(await row(delivery)).toMatchObject({ state: 'pending', reason: kept });
  });
});

describe('an extended lease', () => {
  test('lasts from the time of the request', async () => {
    const delivery = await oneLeased({ lease_seconds: 10 });
    expect(await agent.extend([delivery.receipt], 3600)).toEqual(done(delivery.receipt));
    expect((await row(delivery)).seconds).toBeGreaterThan(3590);
    await letPass(app.database, 3000);
    expect(await agent.claim()).toEqual([]);
    expect(await agent.ack([delivery.receipt])).toEqual(done(delivery.receipt));
  });

  test('can be shorter', async () => {
    const delivery = await oneLeased({ lease_seconds: 3600 });
    await agent.extend([delivery.receipt], 5);
    expect((await row(delivery)).seconds).toBeLessThan(6);
  });

  test('can be extended after it expired, if no other consumer claimed the delivery', async () => {
    const delivery = await oneLeased();
    await letPass(app.database, 3700);
    expect(await agent.extend([delivery.receipt], 60)).toEqual(done(delivery.receipt));
    expect(await agent.claim()).toEqual([]);
  });
});

describe('a claim that settles', () => {
  async function leased(count: number, order = {}): Promise<Delivery[]> {
    ({ webhook, agent } = await subscribed(app));
    for (let i = 0; i < count; i++) await send(webhook);
    return agent.claim({ max: count, ...order });
  }
  const claim = async (body: object) => (await agent.post('claim', body)).body;

  test('acknowledges and refuses before it claims', async () => {
    const [first, second, third, fourth] = await leased(4);
    const refused = { receipt: second!.receipt, delay_seconds: 0, reason: 'busy' };
    const released = { receipt: third!.receipt, release: true };
    const answer = await claim({ max: 10, ack: [first!.receipt], nack: [refused, released] });
    expect(answer.settled).toEqual({ done: [first!.receipt, second!.receipt, third!.receipt], gone: [] });
    const attempts = new Map((answer.deliveries as Delivery[]).map(({ id, attempt }) => [id, attempt]));
    expect(attempts).toEqual(
      new Map([
        [second!.id, 2],
        [third!.id, 1],
      ]),
    );
    expect(await row(first!)).toMatchObject({ state: 'done' });
    expect(await row(fourth!)).toMatchObject({ state: 'leased', attempts: 1 });
  });

  test.each([1, 2])(
    'acknowledges an expired lease in time instead of claiming it again, with %i webhooks',
    async (count) => {
      const webhooks = await Promise.all(Array.from({ length: count }, () => app.addWebhook()));
      agent = await addAgent(app, webhooks);
      await send(webhooks[0]!);
      const expired = await agent.claimOne();
      await letPass(app.database, 3600);
      await send(webhooks.at(-1)!);
      const answer = await claim({ max: 10, ack: [expired.receipt] });
      expect(answer.settled).toEqual(done(expired.receipt));
      expect(answer.deliveries).toHaveLength(1);
      expect(answer.deliveries[0].id).not.toBe(expired.id);
      expect(await row(expired)).toMatchObject({ state: 'done', attempts: 1 });
    },
  );

  test('says what was lost, and settles the same when it is repeated', async () => {
    const [first, second] = await leased(2);
    await letPass(app.database, 3600);
    const [again] = await agent.claim();
    const lost = again!.id === first!.id ? first! : second!;
    const body = { ack: [lost.receipt, again!.receipt], webhook_ids: [] };
    for (let i = 0; i < 2; i++)
      expect((await claim(body)).settled).toEqual({ done: [again!.receipt], gone: [lost.receipt] });
  });

  test('reports what its first statement acknowledged when the database is lost after it', async () => {
    const [first] = await leased(1);
    const receipt = parseReceipt(first!.receipt)!;
    // A statement that finds only dead letters is repeated.
    await send(webhook);
    const order = orderOf(agent.id, { attemptsMax: 0 });
    let statements = 0;
    const query: Query = async (statement) => {
      if (++statements > 1) throw new DatabaseUnavailable(new Error('server closed the connection'));
      return app.database.query(statement);
    };
    const { claimed, complete, settled } = await claimDeliveries({ ...app.database, query }, order, {
      acks: [receipt],
    });
    expect([claimed, complete, [...settled.done]]).toEqual([[], false, [first!.receipt]]);
    expect(statements).toBe(2);
    expect(await row(first!)).toMatchObject({ state: 'done' });
  });

  test.each(['ack', 'nack'])(
    'commits its %s before it waits, and answers at once without wait_seconds',
    async (kind) => {
      const [first, second] = await leased(2);
      const settling = ({ receipt }: Delivery) => ({
        [kind]: kind === 'ack' ? [receipt] : [{ receipt, delay_seconds: 3600 }],
      });
      let isAnswered = false;
      const waits = claim({ ...settling(first!), wait_seconds: 30 }).finally(() => {
        isAnswered = true;
      });
      await until(async () => (await row(first!)).state !== 'leased');
      expect(await claim(settling(second!))).toEqual({ deliveries: [], settled: done(second!.receipt) });
      expect(isAnswered).toBe(false);
      await send(webhook);
      expect((await waits).settled).toEqual(done(first!.receipt));
    },
  );

  test('has no member settled without ack and nack', async () => {
    await leased(1);
    expect(await claim({})).toEqual({ deliveries: [] });
  });

  test('makes room for its own claim under max_leased', async () => {
    ({ webhook, agent } = await subscribed(app));
    await app.sql('update agents set max_leased = 1 where id = $1', agent.id);
    await send(webhook);
    await send(webhook);
    const first = await agent.claimOne();
    expect((await claim({ max: 5 })).deliveries).toEqual([]);
    const { deliveries } = await claim({ max: 5, ack: [first.receipt] });
    expect(deliveries).toHaveLength(1);
    expect(deliveries[0].id).not.toBe(first.id);
  });

  test.each([
    [{ ack: [] }, 'ack'],
    [{ nack: [{ receipt: 'x', release: true, reason: 'no' }] }, 'nack'],
    [{ nack: [{ reason: 'no' }] }, 'nack'],
  ])('refuses %j, and settles nothing', async (wrong, member) => {
    const [first] = await leased(1);
    const answer = await agent.post('claim', { ack: [first!.receipt], ...wrong });
    expect(answer.status).toBe(422);
    expect(JSON.stringify(answer.body)).toContain(member);
    expect(await row(first!)).toMatchObject({ state: 'leased' });
  });
});
