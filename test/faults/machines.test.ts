/** Three installations on machines of their own, with one Postgres and one Redis Cluster behind HAProxy: they act as one, and survive cut links. */
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { migrationFiles } from '../../server/store/migrate.ts';
import { addAgent, signIn, TestAgent } from '../helpers/agents.ts';
import type { TestApp } from '../helpers/app.ts';
import { lackingForMachines, type Machines, startMachines } from '../helpers/machines.ts';
import type { Machine } from '../helpers/namespaces.ts';
import { addPerson } from '../helpers/people.ts';
import { signedRequest } from '../helpers/requests.ts';
import { missing, type Sender, startSender } from '../helpers/sender.ts';
import { openStream } from '../helpers/stream.ts';
import { until } from '../helpers/wait.ts';
import { asApp, readiness, type Weir } from '../helpers/weir.ts';

const LIMIT = 60;
/** Longer by hand: WEIR_TEST_CUT_SECONDS=30. */
const CUT_SECONDS = Number(process.env.WEIR_TEST_CUT_SECONDS ?? 0);

const lacking = lackingForMachines();
if (lacking !== '') console.warn(`The tests of several machines are skipped: this machine lacks ${lacking}.`);

describe.skipIf(lacking !== '')('three machines', () => {
  let machines: Machines;
  let weirs: Weir[];
  /** The members of an app that the helpers need, behind the load balancer. */
  let app: TestApp;
  let webhook: { id: string; path: string; secret: string };

  beforeAll(async () => {
    machines = await startMachines(3, { RATE_LIMIT_INGEST_WINDOW_SECONDS: 86_400 });
    weirs = machines.weirs.map(({ weir }) => weir);
    app = asApp({ ...weirs[0]!, port: machines.port });
    webhook = await weirs[0]!.addWebhook();
    await until(async () => (await readiness(machines.port))?.status === 200);
  });
  afterAll(() => machines.stop());

  const urlOf = ({ port }: Weir) => `http://127.0.0.1:${port}`;
  const post = async (weir: Weir, { path, secret }: typeof webhook) => {
    const answer = await fetch(urlOf(weir) + path, signedRequest({ secret }));
    return { status: answer.status, id: ((await answer.json()) as { id?: string }).id };
  };

  test('that start at the same time migrate once, and create each partition once', async () => {
    const names = weirs.flatMap((weir) => weir.events('migrated').map(({ migration }) => migration));
    expect(names.sort()).toEqual(migrationFiles().map(({ name }) => name));
    const created = weirs.flatMap((weir) => weir.events('partitions_created').map((line) => Number(line.partitions)));
    const text = `select count(*)::int as count from pg_class where relkind = 'r' and relname ~ '^(events|deliveries)_[0-9]{8}$'`;
    const [stored] = await weirs[0]!.database.query<{ count: number }>({ text });
    expect(created.reduce((sum, count) => sum + count, 0)).toBe(stored!.count);
  });

  test('know a webhook that one of them has created', async () => {
    const added = await weirs[1]!.addWebhook();
    for (const weir of weirs) await until(async () => (await post(weir, added)).status === 202);
  });

  test('accept the sessions of agents and users from each other', async () => {
    const agent = await addAgent(app, [{ ...webhook, url: app.url + webhook.path }]);
    const person = await addPerson(app, 'operator');
    for (const [i, weir] of weirs.entries()) {
      const { id } = await post(weir, webhook);
      const other = weirs[(i + 1) % weirs.length]!;
      const there = new TestAgent(urlOf(other), agent, await signIn({ url: urlOf(weir) }, agent.credential));
      const deliveries = await there.claim();
      expect(deliveries.map(({ event }) => event.id)).toContain(id);
      expect((await there.ack(deliveries.map(({ receipt }) => receipt))).gone).toEqual([]);
      for (const headers of [{ cookie: person.cookie }, { authorization: `Bearer ${person.token}` }])
        expect((await fetch(`${urlOf(weir)}/api/v1/webhooks`, { headers })).status).toBe(200);
    }
  });

  test('show events of every machine in a live stream of one', async () => {
    const person = await addPerson(app, 'operator');
    const stream = await openStream(`${urlOf(weirs[2]!)}/api/v1/stream`, { cookie: person.cookie });
    for (const weir of weirs) {
      const { id } = await post(weir, webhook);
      await stream.next('event', (data) => data.id === id);
    }
    expect(new Set(stream.of('event').map(({ id }) => id)).size).toBe(stream.of('event').length);
    stream.leave();
  });

  test('count rate limits together, exactly', async () => {
    await expectExactCount();
  });

  /** The limit passes, whichever machines the requests meet. On a busy machine Redis may be late; what passes uncounted then is in the metrics. */
  async function expectExactCount(): Promise<void> {
    const limited = await weirs[0]!.addWebhook(LIMIT);
    const uncounted = async () => {
      const counts = await Promise.all(weirs.map((weir) => weir.metric('weir_requests_uncounted_total')));
      return counts.reduce((sum, count) => sum + count, 0);
    };
    const before = await uncounted();
    const sender = startSender({ port: machines.port, ...limited, keepAlive: false, lanes: 8 });
    await until(() => sender.accepted.size + sender.refusals.length >= 2 * LIMIT);
    await sender.stop();
    expect(sender.losses).toEqual([]);
    expect(sender.answeredBy.size).toBe(weirs.length);
    expect(sender.accepted.size).toBeGreaterThanOrEqual(LIMIT);
    await until(async () => sender.accepted.size - ((await uncounted()) - before) <= LIMIT);
    expect(sender.refusals.filter(({ status }) => status !== 429)).toEqual([]);
  }
  const degraded = () => Promise.all(weirs.map((weir) => weir.metric('weir_rate_limit_degraded')));

  describe('with one cut off', () => {
    /** The cut machine, with a sender of its own and one at the load balancer. */
    async function cutOff(others: Machine[], during: (weir: Weir, own: Sender) => Promise<void>): Promise<Sender[]> {
      const { weir, machine } = machines.weirs[2]!;
      const own = startSender({ port: weir.port, ...webhook, lanes: 8 });
      const all = startSender({ port: machines.port, ...webhook, lanes: 8 });
      await Promise.all([own.acceptMore(50), all.acceptMore(50)]);
      await machine.cut(...others);
      try {
        await during(weir, own);
        await all.acceptMore(50);
        await delay(CUT_SECONDS * 1000);
      } finally {
        await machine.heal();
      }
      await until(async () => (await readiness(weir.port))?.status === 200);
      await Promise.all([own.acceptMore(50), all.acceptMore(50)]);
      await Promise.all([own.stop(), all.stop()]);
      for (const { accepted } of [own, all]) expect(await missing(weir.database, accepted)).toEqual([]);
      if (CUT_SECONDS > 0) report(others, own, all);
      return [own, all];
    }

    const failing = (weir: Weir) => until(async () => (await readiness(weir.port))?.status === 503);

    test('from Postgres: it answers 503, the others serve, and it knows afterwards what changed', async () => {
      let added: typeof webhook | undefined;
      const senders = await cutOff([machines.database], async (weir, own) => {
        await failing(weir);
        await until(() => own.refusals.length > 0);
        added = await weirs[0]!.addWebhook();
        await until(async () => (await post(weirs[1]!, added!)).status === 202);
      });
      for (const { refusals } of senders)
        expect(new Set(refusals.map(({ status, code }) => `${status} ${code}`))).toEqual(
          new Set(refusals.length === 0 ? [] : ['503 database_unavailable']),
        );
      expect(
        await until(async () => [await post(weirs[2]!, added!)].find(({ status }) => status !== 503)),
      ).toMatchObject({ status: 202 });
    });

    test('from Redis: it continues without the shared limit', async () => {
      const [own, all] = await cutOff([machines.store], async (weir, sender) => {
        await until(async () => (await weir.metric('weir_rate_limit_degraded')) === 1);
        await sender.acceptMore(50);
        expect(await readiness(weir.port)).toMatchObject({ status: 200, checks: { rate_limit_store: 'degraded' } });
      });
      expect([own!.refusals, all!.refusals]).toEqual([[], []]);
      await until(async () => (await degraded()).every((count) => count === 0));
      await expectExactCount();
    });

    test('from both: it answers 503 and recovers', async () => {
      await cutOff([machines.database, machines.store], async (weir) => void (await failing(weir)));
      await until(async () => (await degraded()).every((count) => count === 0));
    });
  });

  function report(others: Machine[], own: Sender, all: Sender): void {
    const answers = ({ accepted, refusals, losses }: Sender) => {
      const codes = [...refusals.map(({ status, code }) => `${status} ${code}`), ...losses.map(({ code }) => code)];
      const counts = [...new Set(codes)].map((code) => `${code}: ${codes.filter((other) => other === code).length}`);
      return [`202: ${accepted.size}`, ...counts].join(', ');
    };
    console.log(
      `cut from ${others.map(({ name }) => name).join(' and ')} for ${CUT_SECONDS} s: the machine ${answers(own)}; all ${answers(all)}`,
    );
  }
});
