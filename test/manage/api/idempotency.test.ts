import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { type OperationName, userRoutes } from '../../../server/manage/api/routes.ts';
import { deleteExpiredAnswers } from '../../../server/store/queries/users/idempotency.ts';
import { startSecondApp } from '../../helpers/agents.ts';
import type { TestApp } from '../../helpers/app.ts';
import { type Answer, addPerson, PASSWORD, request } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { makeWorld, requestOf } from '../../helpers/world.ts';

const world = shared(makeWorld);
let app: TestApp;
const second = shared(() => startSecondApp(world.app));
const operator = shared(() => addPerson(world.app, 'administrator', PASSWORD));
beforeAll(() => {
  app = world.app;
});

const WEBHOOKS = '/api/v1/webhooks';
const keyed = (key: string, path: string, body: unknown, person = operator, url = app.url): Promise<Answer> =>
  request(url + path, 'POST', body, { authorization: `Bearer ${person.token}`, 'idempotency-key': key });
const replayed = ({ headers }: Answer) => headers.get('idempotent-replayed');
const webhooksNamed = async (name: string) => (await operator.api('GET', `${WEBHOOKS}?q=${name}`)).body.items.length;

/** The operations that accept a key. */
const taking: OperationName[] = [
  ...(['createWebhook', 'rotateSecret', 'createAgent', 'rotateAgent', 'createToken', 'createUser'] as const),
  ...(['inviteUser', 'replayEvents', 'replayEvent', 'replayDelivery', 'replayDeliveries'] as const),
  ...(['dismissDelivery', 'dismissDeliveries'] as const),
];

describe('the same request with the same key', () => {
  test.each(taking)('%s is executed once, and every process returns the same response', async (name) => {
    const [path, body] = await requestOf(world, name);
    const key = `key ${randomUUID()}`;
    const audited = async () => (await app.sql('select from audit_log')).length;
    const before = await audited();
    const first = await keyed(key, path, body);
    expect([first.status < 300, replayed(first)]).toEqual([true, null]);
    for (const url of [app.url, second.url]) {
      const again = await keyed(key, path, body, operator, url);
      expect([again.status, again.text, replayed(again)]).toEqual([first.status, first.text, 'true']);
      expect(again.headers.get('location')).toBe(first.headers.get('location'));
    }
    expect(await audited()).toBe(before + 1);
  });

  test('sent concurrently to two processes is executed once', async () => {
    const name = `many${randomUUID()}`;
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, i) =>
        keyed(name, WEBHOOKS, { name }, operator, i % 2 === 0 ? app.url : second.url),
      ),
    );
    for (const { status, body } of answers)
      if (status !== 201) expect([status, body.code]).toEqual([409, 'idempotency_in_progress']);
    expect(answers.filter((answer) => answer.status === 201 && replayed(answer) === null)).toHaveLength(1);
    expect(await webhooksNamed(name)).toBe(1);
    expect((await keyed(name, WEBHOOKS, { name })).status).toBe(201);
  });

  test('is recognized in any form of its JSON', async () => {
    const key = randomUUID();
    const first = await keyed(key, WEBHOOKS, '{"name":"a","enabled":true}');
    expect((await keyed(key, WEBHOOKS, ' { "enabled" : true, "name" : " a " } ')).text).toBe(first.text);
  });
});

/** Creates a webhook whose insert is blocked while `work` runs: the request has its key and waits. Returns its response. */
function whileBlocked(key: string, input: object, work: () => Promise<unknown>): Promise<() => Promise<Answer>> {
  return app.database.transaction(async (query) => {
    await query({ text: 'lock table webhooks in exclusive mode' });
    const attempt = keyed(key, WEBHOOKS, input);
    const text = 'select from idempotency_keys where key = $1';
    await until(async () => (await app.sql(text, key)).length === 1);
    await work();
    // Returns an object, because the transaction would await a returned promise.
    return () => attempt;
  });
}

describe('another request with the same key', () => {
  test.each([
    ['another body', WEBHOOKS, { name: 'b' }],
    ['another path', '/api/v1/agents', { name: 'a' }],
  ])('of %s is refused', async (_what, path, body) => {
    const key = randomUUID();
    expect((await keyed(key, WEBHOOKS, { name: 'a' })).status).toBe(201);
    const { status, body: problem } = await keyed(key, path, body);
    expect([status, problem.code]).toEqual([422, 'idempotency_key_reused']);
  });

  test('is refused while the first one is in progress', async () => {
    const key = randomUUID();
    const answers: Answer[] = [];
    const first = await whileBlocked(key, { name: 'a' }, async () => {
      for (const name of ['a', 'b']) answers.push(await keyed(key, WEBHOOKS, { name }));
    });
    expect(answers.map(({ status, body }) => [status, body.code])).toEqual([
      [409, 'idempotency_in_progress'],
      [422, 'idempotency_key_reused'],
    ]);
    expect((await first()).status).toBe(201);
  });

  test('of a token of the same user with a lower role is refused, without the first response', async () => {
    const [key, input] = [randomUUID(), { name: 'strong', role: 'operator' }];
    const made = await keyed(key, '/api/v1/tokens', input);
    expect(made.status).toBe(201);
    const { body: weak } = await operator.api('POST', '/api/v1/tokens', { name: 'weak', role: 'viewer' });
    const answer = await keyed(key, '/api/v1/tokens', input, { ...operator, token: weak.token });
    expect([answer.status, answer.body.code]).toEqual([422, 'idempotency_key_reused']);
    expect(answer.text).not.toContain(made.body.token);
  });

  test('of another user is independent', async () => {
    const other = await addPerson(app, 'operator');
    const key = randomUUID();
    const first = await keyed(key, WEBHOOKS, { name: 'a' });
    const theirs = await keyed(key, WEBHOOKS, { name: 'a' }, other);
    expect([theirs.status, replayed(theirs)]).toEqual([201, null]);
    expect(theirs.body.id).not.toBe(first.body.id);
  });
});

describe('a key', () => {
  test.each([
    ['of a refused request can be used for the corrected one', { name: '' }, 422],
    [
      'of a request that only the database refused can be used for the corrected one',
      { name: 'a', agent_ids: [randomUUID()] },
      422,
    ],
  ])('%s', async (_what, bad, status) => {
    const key = randomUUID();
    expect((await keyed(key, WEBHOOKS, bad)).status).toBe(status);
    expect((await keyed(key, WEBHOOKS, { name: 'a' })).status).toBe(201);
  });

  test.each([
    ['of 255 characters is taken', 'k'.repeat(255), 201],
    ['of 256 characters is refused', 'k'.repeat(256), 400],
    ['that is empty is refused', '', 400],
    ['beyond ASCII is refused', 'schlüssel', 400],
  ])('%s', async (_what, key, status) => {
    const answer = await keyed(key, WEBHOOKS, { name: 'a' });
    expect(answer.status).toBe(status);
    if (status === 400) expect(answer.body.code).toBe('idempotency_key_invalid');
  });

  test('expires after a day and is deleted', async () => {
    const key = randomUUID();
    const first = await keyed(key, WEBHOOKS, { name: 'a' });
    const text = `update idempotency_keys set expires_at = expires_at - interval '24 hours' where key = $1`;
    await app.sql(text, key);
    const again = await keyed(key, WEBHOOKS, { name: 'a' });
    expect([again.status, again.body.id === first.body.id]).toEqual([201, false]);
    await app.sql(text, key);
    await deleteExpiredAnswers(app.database);
    expect(await app.sql('select from idempotency_keys where key = $1', key)).toEqual([]);
  });

  test('stores no secret in clear text', async () => {
    const key = randomUUID();
    const { body } = await keyed(key, WEBHOOKS, { name: 'a', generate_secret: true });
    const [row] = await app.sql<{ answer: Buffer; text: string }>(
      `select answer, k::text as text from idempotency_keys k where key = $1`,
      key,
    );
    expect(row!.answer.length).toBeGreaterThan(100);
    for (const each of [body.secret, body.id, '"secret"']) {
      expect(row!.answer.includes(each)).toBe(false);
      expect(row!.text).not.toContain(each);
    }
  });
});

/** The state that a crashed process leaves. */
describe('after a crash', () => {
  async function leftBehind(state: string) {
    const key = randomUUID();
    const body = { name: `left${key}` };
    const first = await keyed(key, WEBHOOKS, body);
    await app.sql(`update idempotency_keys set ${state} where key = $1`, key);
    return { key, body, first };
  }

  test('before the change, the key is held for at most a minute', async () => {
    const { key, body } = await leftBehind(
      `answer = null, changed_at = null, held_until = now() + interval '1 minute'`,
    );
    const held = await keyed(key, WEBHOOKS, body);
    expect([held.status, held.body.code]).toEqual([409, 'idempotency_in_progress']);
    await app.sql(`update idempotency_keys set held_until = now() - interval '1 second' where key = $1`, key);
    expect((await keyed(key, WEBHOOKS, body)).status).toBe(201);
  });

  test('between the change and its response, the change is not repeated', async () => {
    const { key, body } = await leftBehind(`answer = null, held_until = now() - interval '1 hour'`);
    const { status, body: problem } = await keyed(key, WEBHOOKS, body);
    expect([status, problem.code]).toEqual([409, 'idempotency_response_lost']);
    expect(await webhooksNamed(body.name)).toBe(1);
  });

  test('between the change and its response, an attempt that may still run is in progress', async () => {
    const { key, body } = await leftBehind(`answer = null, held_until = now() + interval '1 minute'`);
    const { status, body: problem } = await keyed(key, WEBHOOKS, body);
    expect([status, problem.code]).toEqual([409, 'idempotency_in_progress']);
    expect(await webhooksNamed(body.name)).toBe(1);
  });

  test('a slow attempt whose key was taken by another makes no change', async () => {
    const key = randomUUID();
    const name = `slow${key}`;
    const attempt = await whileBlocked(key, { name }, () =>
      app.sql('update idempotency_keys set attempt = gen_random_uuid() where key = $1', key),
    );
    const { status, body } = await attempt();
    expect([status, body.code]).toEqual([409, 'idempotency_in_progress']);
    expect(await webhooksNamed(name)).toBe(0);
  });
});

test('an operation that accepts no key ignores it', async () => {
  const { id } = (await keyed(randomUUID(), WEBHOOKS, { name: 'a' })).body;
  const key = randomUUID();
  for (const name of ['b', 'c'])
    expect((await operator.api('PATCH', `${WEBHOOKS}/${id}`, { name }, { 'idempotency-key': key })).body.name).toBe(
      name,
    );
});

test('every operation that creates something accepts a key', async () => {
  const { paths } = (await (await fetch(`${app.url}/api/v1/openapi.json`)).json()) as {
    paths: Record<string, Record<string, { parameters?: { name: string }[] }>>;
  };
  const documented = userRoutes.filter(([method, path]) =>
    paths[path.replace(/:(\w+)/g, '{$1}')]![method.toLowerCase()]!.parameters?.some(
      ({ name }) => name === 'Idempotency-Key',
    ),
  );
  expect(documented.map(([, , name]) => name).sort()).toEqual([...taking].sort());
});
