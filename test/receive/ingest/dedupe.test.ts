import { describe, expect, test } from 'vitest';
import { startTestApp, type TestApp, type TestWebhook } from '../../helpers/app.ts';
import { RawClient } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(() => startTestApp());
/** Another process on the same database. */
const other = shared(() => startTestApp({}, app));

const addWebhook = () => app.addWebhook({ secret: null, dedupe_header: 'X-Delivery' });

interface Answer {
  id: string;
  received_at: string;
  bytes: number;
  duplicate?: boolean;
}

async function post(to: TestWebhook, value: string | null, { at = app, body = '{}' } = {}) {
  const headers = value === null ? {} : { 'X-Delivery': value };
  const response = await fetch(`${at.url}${to.path}`, { method: 'POST', body, headers });
  return { status: response.status, answer: (await response.json()) as Answer };
}

async function postBatch(to: TestWebhook, value: string, body: string, at = app) {
  const response = await fetch(`${at.url}${to.path}/batch`, { method: 'POST', body, headers: { 'X-Delivery': value } });
  return { status: response.status, answer: (await response.json()) as { ids: string[] } & Record<string, unknown> };
}

const eventsOf = async ({ id }: TestWebhook) => {
  const text = 'select id, body from events where webhook_id = $1 order by id';
  return await app.sql<{ id: string; body: Buffer }>(text, id);
};

const reachable = (at: TestApp) => until(async () => (await fetch(`${at.url}/readyz`)).status === 200);

/** Keys without an event, and events without a key. */
const orphansOf = async ({ id }: TestWebhook) => {
  const text = `select key, id from (select key, event_id from dedupe_keys where webhook_id = $1) keys
                full join (select id from events where webhook_id = $1) stored on event_id = id
                where key is null or id is null`;
  return await app.sql(text, id);
};

describe('a duplicate', () => {
  test('is answered 200 with the first event, and is not stored', async () => {
    const to = await addWebhook();
    const first = await post(to, 'one', { body: 'first body' });
    expect([first.status, first.answer.duplicate]).toEqual([202, undefined]);
    const again = await post(to, 'one', { at: other, body: 'another' });
    expect(again).toEqual({ status: 200, answer: { ...first.answer, bytes: 7, duplicate: true } });
    expect((await eventsOf(to)).map(({ id, body }) => [id, body.toString()])).toEqual([
      [first.answer.id, 'first body'],
    ]);
  });

  test('has the same webhook and the same value', async () => {
    const [to, elsewhere] = [await addWebhook(), await addWebhook()];
    const answers = [await post(to, 'a'), await post(elsewhere, 'a'), await post(to, 'A'), await post(to, 'a#1')];
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 202, 202]);
  });

  test('needs a value: requests with a missing or empty header are always stored', async () => {
    const to = await addWebhook();
    for (const value of [null, null, '', '']) expect((await post(to, value)).status).toBe(202);
    const plain = await app.addWebhook({ secret: null });
    for (let i = 0; i < 2; i++) expect((await post(plain, 'the same')).status).toBe(202);
    const keys = await app.sql('select from dedupe_keys where webhook_id in ($1, $2)', to.id, plain.id);
    expect(keys.length).toBe(0);
  });

  test('is identified by the first value when the header was sent twice', async () => {
    const to = await addWebhook();
    await post(to, 'one');
    const client = await RawClient.connect(app.port);
    const statuses = [];
    for (const values of ['one\r\nX-Delivery: two', 'two\r\nX-Delivery: one']) {
      await client.send(`POST ${to.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nX-Delivery: ${values}\r\n\r\n{}`);
      statuses.push((await client.answer())!.status);
    }
    client.destroy();
    expect(statuses).toEqual([200, 202]);
  });

  test('is stored again after its key expired, which is after RETENTION_DAYS', async () => {
    const to = await addWebhook();
    const first = await post(to, 'one');
    const [key] = await app.sql<{ days: number }>(
      `select round(extract(epoch from expires_at - now()) / 8640)::int / 10.0::float8 as days from dedupe_keys where webhook_id = $1`,
      to.id,
    );
    expect(key!.days).toBe(app.settings.RETENTION_DAYS);
    const text = `update dedupe_keys set expires_at = now() - interval '1 millisecond' where webhook_id = $1`;
    await app.sql(text, to.id);
    const second = await post(to, 'one');
    expect([second.status, second.answer.id === first.answer.id]).toEqual([202, false]);
    expect((await post(to, 'one')).answer).toEqual({ ...second.answer, duplicate: true });
    expect((await eventsOf(to)).length).toBe(2);
  });

  test('creates no delivery; the first request creates its own', async () => {
    const to = await addWebhook();
    const agent = '00000000-0000-4000-8000-000000000001';
    await app.sql(`insert into agents (id, name, lookup_id, secret_hash) values ('${agent}', 'a', '000000000000', decode(repeat('00', 32), 'hex'));
             insert into subscriptions (webhook_id, agent_id) values ('${to.id}', '${agent}')`);
    const { answer } = await post(to, 'one');
    await post(to, 'one');
    const text = 'select event_id from deliveries where webhook_id = $1';
    expect(await app.sql(text, to.id)).toEqual([{ event_id: answer.id }]);
  });

  test('handling stores the same bytes as the ordinary path', async () => {
    const [to, plain] = [await addWebhook(), await app.addWebhook({ secret: null })];
    const body = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    for (const type of ['', 'text/"ü,{}\\'])
      for (const { path } of [to, plain]) {
        const own = { 'X-Delivery': `v${type.length}`, 'X-A': '"\\{', 'X-Request-Id': 'the-same' };
        const headers = { ...own, 'Content-Type': Buffer.from(type).toString('latin1') };
        await fetch(app.url + path, { method: 'POST', body, headers });
      }
    const text = `select source_ip, headers, content_type, body, bytes from events where webhook_id = $1 order by id`;
    const rows = await Promise.all([to, plain].map(({ id }) => app.sql(text, id)));
    expect(rows[0]!.length).toBe(2);
    expect(rows[0]).toEqual(rows[1]);
  });
});

describe('many concurrent duplicates', () => {
  test('at two processes create one event for each value, and all responses have its id', async () => {
    const to = await addWebhook();
    const values = Array.from({ length: 10 }, (_, i) => `value ${i}`);
    const shuffled = () => values.map((value) => ({ value, by: Math.random() })).sort((a, b) => a.by - b.by);
    const rounds = Array.from({ length: 20 }, (_, i) =>
      shuffled().map(({ value }) => ({ value, at: i % 2 ? app : other })),
    );
    const answers = await Promise.all(
      rounds.flat().map(async ({ value, at }) => ({ value, ...(await post(to, value, { at })) })),
    );
    expect(answers.length).toBe(200);
    expect((await eventsOf(to)).length).toBe(10);
    for (const value of values) {
      const mine = answers.filter((answer) => answer.value === value);
      expect(mine.filter(({ status }) => status === 202).length).toBe(1);
      expect(mine.filter(({ status }) => status === 200).length).toBe(19);
      expect(new Set(mine.map(({ answer }) => answer.id)).size).toBe(1);
    }
    expect(await orphansOf(to)).toEqual([]);
  });

  test('are exact when connections are killed in progress', async () => {
    const to = await addWebhook();
    const values = Array.from({ length: 300 }, (_, i) => `value ${i}`);
    const reported = new Set<string>();
    let answers = 0;
    let repeated = 0;
    const kill = `select pg_terminate_backend(pid) from pg_stat_activity
                  where datname = current_database() and application_name = 'weir'`;
    const send = async (value: string, at: TestApp) => {
      for (;;) {
        if (answers++ % 60 === 30) await app.sql(kill);
        const { status, answer } = await post(to, value, { at });
        expect([200, 202, 503]).toContain(status);
        if (status !== 503) return void reported.add(answer.id);
        repeated++;
        await reachable(at);
      }
    };
    // Each value four times, 50 requests at a time, at both processes.
    const work = [...values, ...values, ...values, ...values].map((value, i) => ({ value, at: i % 2 ? app : other }));
    const takeWork = async () => {
      for (let job = work.pop(); job !== undefined; job = work.pop()) await send(job.value, job.at);
    };
    await Promise.all(Array.from({ length: 50 }, takeWork));
    const stored = (await eventsOf(to)).map(({ id }) => id);
    expect(stored.length).toBe(300);
    expect(reported).toEqual(new Set(stored));
    expect(await orphansOf(to)).toEqual([]);
    expect((await app.metric('weir_events_in_doubt_total')) + repeated).toBeGreaterThan(0);
  });
});

describe('a batch', () => {
  test('identifies its lines by value and line number', async () => {
    const to = await addWebhook();
    const first = await postBatch(to, 'v', '1\n\n3\n');
    expect(first).toEqual({ status: 202, answer: { accepted: 2, ids: [expect.any(String), expect.any(String)] } });
    const all = await postBatch(to, 'v', '1\n\n3\n', other);
    expect(all).toEqual({
      status: 200,
      answer: { accepted: 0, ids: first.answer.ids, duplicates: 2, duplicate: true },
    });
    const some = await postBatch(to, 'v', '1\n2\n3\n4\n');
    expect(some.status).toBe(202);
    expect(some.answer).toMatchObject({ accepted: 2, duplicates: 2 });
    const [one, three] = first.answer.ids;
    expect([some.answer.ids[0], some.answer.ids[2]]).toEqual([one, three]);
    const stored = await eventsOf(to);
    expect(stored.map(({ body }) => body.toString()).sort()).toEqual(['1', '2', '3', '4']);
    expect(new Set(some.answer.ids)).toEqual(new Set(stored.map(({ id }) => id)));
    expect((await post(to, 'v#3')).answer.id).toBe(three);
  });

  test('sent concurrently is stored once, in one commit', async () => {
    const to = await addWebhook();
    const body = Array.from({ length: 50 }, (_, i) => i).join('\n');
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, i) => postBatch(to, 'v', body, i % 2 ? app : other)),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 200, 200, 200, 202]);
    for (const { answer } of answers) expect(answer.ids).toEqual(answers[0]!.answer.ids);
    const commits = await app.sql(
      'select xmin::text, count(*)::int as events from events where webhook_id = $1 group by 1',
      to.id,
    );
    expect(commits).toEqual([{ xmin: expect.any(String), events: 50 }]);
  });
});
