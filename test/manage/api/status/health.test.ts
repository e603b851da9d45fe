import { afterEach, describe, expect, test } from 'vitest';
import { partitionedTables, partitionName } from '../../../../server/store/retention/partitions.ts';
import { startTestApp } from '../../../helpers/app.ts';
import { takeClock } from '../../../helpers/clock.ts';
import { addPerson } from '../../../helpers/people.ts';
import { ofTest, shared } from '../../../helpers/shared.ts';
import { until } from '../../../helpers/wait.ts';

const app = shared(startTestApp);

const ok = {
  database: 'ok',
  migrations: 'ok',
  threads: 'ok',
  draining: 'ok',
  rate_limit_store: 'ok',
  secrets: 'ok',
};

/** The answer of a check holds for up to 5 s. */
const CHECK_VALID_MS = 5_000;

/** Asks until the answer is of this status, with every check made again each time. */
async function readyAgain(clock: ReturnType<typeof takeClock>, status: number) {
  return until(async () => {
    clock.forward(CHECK_VALID_MS);
    const answer = await ready();
    return answer.status === status && answer;
  });
}

async function ready(): Promise<{ status: number; retryAfter: string | null; body: unknown }> {
  const response = await fetch(`${app.url}/readyz`);
  return { status: response.status, retryAfter: response.headers.get('retry-after'), body: await response.json() };
}

test('a running process is alive', async () => {
  const response = await fetch(`${app.url}/healthz`);
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toBe('application/json');
  expect(await response.json()).toEqual({ status: 'ok' });
});

describe('while the start waits', () => {
  const starting = { ...ok, database: 'unknown', migrations: 'unknown' };
  test.each([
    ['database', { ...starting, database: 'failing' }, { database_failure: 'it does not answer' }],
    ['migrations', { ...starting, migrations: 'migrating' }, {}],
    ['rate_limit_store', { ...starting, rate_limit_store: 'failing' }, {}],
  ] as const)(
    'for %s, a process is alive and not ready, and refuses events until the wait ends',
    async (what, checks, cause) => {
      const waiting = await ofTest(startTestApp({}, app, what));
      const ask = (path: string, init?: RequestInit) => fetch(`${waiting.url}${path}`, init);
      expect((await ask('/healthz')).status).toBe(200);
      const answer = await ask('/readyz');
      expect([answer.status, await answer.json()]).toEqual([503, { status: 'not_ready', checks, ...cause }]);
      const { path } = await app.addWebhook({ secret: null });
      const refused = await ask(path, { method: 'POST', body: '{}' });
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
      await waiting.app.useDatabase();
      await until(async () => (await ask('/readyz')).status === 200);
      expect((await ask(path, { method: 'POST', body: '{}' })).status).toBe(202);
    },
  );

  test('for something else than before, readyz says so', async () => {
    const waiting = await ofTest(startTestApp({}, app, 'database'));
    waiting.app.awaits('migrations');
    const answer = await fetch(`${waiting.url}/readyz`);
    expect(await answer.json()).toMatchObject({ checks: { migrations: 'migrating' } });
  });
});

describe('readiness', () => {
  afterEach(() => app.restore());

  test('is reported when events can be stored', async () => {
    expect(await ready()).toEqual({ status: 200, retryAfter: null, body: { status: 'ready', checks: ok } });
  });

  test('fails when the database is unavailable, names it, and recovers', async () => {
    const clock = takeClock();
    await app.cutOff();
    const gone = await until(async () => {
      clock.forward(CHECK_VALID_MS);
      const answer = await ready();
      return JSON.stringify(answer.body).includes('unknown') && answer;
    });
    expect(gone).toEqual({
      status: 503,
      retryAfter: '1',
      body: {
        status: 'not_ready',
        checks: { ...ok, database: 'failing', migrations: 'unknown' },
        database_failure: 'it does not answer',
      },
    });
    expect((await fetch(`${app.url}/healthz`)).status).toBe(200);
    await app.restore();
    await readyAgain(clock, 200);
  });

  test.each(partitionedTables)('goes when %s has no partition for today, and comes back with it', async (table) => {
    const clock = takeClock();
    const name = partitionName(table, Date.now());
    // A table that cannot be attached prevents the partition from being created.
    await app.sql(`drop table ${name}; create table ${name} ()`);
    const gone = await readyAgain(clock, 503);
    expect(gone.body).toEqual({
      status: 'not_ready',
      checks: { ...ok, database: 'failing' },
      database_failure: 'a partition for today is missing',
    });
    await app.sql(`drop table ${name}`);
    await readyAgain(clock, 200);
  });

  test('fails when the disk is full, at the first probe, and recovers when there is space', async () => {
    const viewer = await addPerson(app, 'viewer');
    const issue = async () => {
      const { items } = (await viewer.api('GET', '/api/v1/issues?state=open')).body;
      return items.find(({ kind }: { kind: string }) => kind === 'database');
    };
    const clock = takeClock();
    await readyAgain(clock, 200);
    expect([await issue(), await app.metric('weir_database_up')]).toEqual([undefined, 1]);
    // The error of Postgres when it cannot extend a table by a page.
    await app.sql(`create function refuse() returns trigger language plpgsql as
               $$ begin raise exception 'could not extend file' using errcode = '53100'; end $$;
             create trigger full_disk before insert on events for each row when (new.bytes >= 8192) execute function refuse()`);
    const gone = await readyAgain(clock, 503);
    expect(gone.body).toEqual({
      status: 'not_ready',
      checks: { ...ok, database: 'failing' },
      database_failure: 'its disk is full',
    });
    expect(await issue()).toMatchObject({
      severity: 'critical',
      title: 'Postgres does not commit events: its disk is full.',
      fix: expect.stringMatching(/^Free space .+ Postgres said: 53100: could not extend file$/),
    });
    expect(await app.metric('weir_database_up')).toBe(0);
    await app.sql('drop trigger full_disk on events; drop function refuse');
    await readyAgain(clock, 200);
    expect([await issue(), await app.metric('weir_database_up')]).toEqual([undefined, 1]);
  });

  test('fails when the schema is older than the release', async () => {
    const clock = takeClock();
    await app.sql('update schema_migrations set version = version + 1000');
    const behind = await readyAgain(clock, 503);
    expect(behind.body).toEqual({ status: 'not_ready', checks: { ...ok, migrations: 'failing' } });
    await app.sql('update schema_migrations set version = version - 1000');
    await readyAgain(clock, 200);
  });

  test('queries once for concurrent requests, and stores nothing', async () => {
    const clock = takeClock();
    // A sequence counts the probes, which are rolled back.
    const run = (text: string) => app.sql<{ probes: number }>(text);
    await run(`create sequence probes;
      create function count_probe() returns trigger language plpgsql as $$ begin perform nextval('probes'); return null; end $$;
      create trigger count_probe before insert on deliveries for each statement execute function count_probe()`);
    // Later than every clock value of the tests before.
    clock.forward(86_400_000);
    const answers = await Promise.all(Array.from({ length: 50 }, ready));
    const [row] = await run('select last_value::int as probes from probes where is_called');
    await run('drop trigger count_probe on deliveries; drop function count_probe; drop sequence probes');
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect(row).toEqual({ probes: 1 });
    expect(await app.sql('select from events')).toEqual([]);
    expect(await app.sql('select from deliveries')).toEqual([]);
  });

  // This is the last test, because draining cannot be undone.
  test('fails when the process is draining, which continues to serve', async () => {
    const webhook = await app.addWebhook({ secret: null });
    app.app.leave();
    expect(await ready()).toEqual({
      status: 503,
      retryAfter: '1',
      body: { status: 'not_ready', checks: { ...ok, draining: 'failing' } },
    });
    expect((await fetch(webhook.url, { method: 'POST', body: '{}' })).status).toBe(202);
  });
});
