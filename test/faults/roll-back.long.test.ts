/** Two machines with one Postgres change from today's build to one with another migration, and back, under load. */
import { chmod, mkdtemp, rename, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { migrationFiles } from '../../server/store/migrate.ts';
import { signIn, TestAgent } from '../helpers/agents.ts';
import { installNextRelease, nextMigration } from '../helpers/next-release.ts';
import { emptyDatabase, type FreshDatabase } from '../helpers/postgres.ts';
import { signedRequest } from '../helpers/requests.ts';
import { someKey } from '../helpers/settings.ts';
import { until } from '../helpers/wait.ts';
import { spawnWeir, startWeir, type Weir } from '../helpers/weir.ts';

const LANES = 8;
const PACE_MS = 20;
/** A sender repeats after these, and after a lost connection. */
const ACCEPTED = [200, 202];
const REPEATED = 503;
const KEY_HEADER = 'x-key';

const root = resolve(import.meta.dirname, '../..');

describe('two machines', () => {
  /** `today` and `next`, and the link `current` of each machine to one of them. */
  let directory: string;
  let database: FreshDatabase;

  type Release = 'today' | 'next';

  /** A machine: its Weir stays at one port and DATA_DIR, and runs the release of its link. */
  class Machine {
    readonly name: string;
    weir!: Weir;
    #runs = false;
    constructor(name: string) {
      this.name = name;
    }

    async use(release: Release): Promise<void> {
      const [link, current] = ['link', 'current'].map((word) => join(directory, `${this.name}-${word}`));
      await symlink(release, link!);
      await rename(link!, current!);
    }

    /** Stops Weir when it runs, and starts it. */
    async start(release: Release): Promise<void> {
      await this.use(release);
      const settings = this.#settings;
      if (this.#runs) await this.end();
      this.weir = await startWeir(settings, { entry: this.#entry });
      this.#runs = true;
    }

    async end(): Promise<void> {
      this.#runs = false;
      await this.weir.forget();
      this.weir.signal('SIGTERM');
      expect(await this.weir.ended).toBe(0);
    }

    get #entry(): string {
      return join(directory, `${this.name}-current/dist/server/cli/weir.js`);
    }

    get #settings() {
      const at = this.weir === undefined ? {} : { DATA_DIR: this.weir.dataDir, PORT: this.weir.port };
      return { DATABASE_URL: database.conninfo, SECRETS_KEY: someKey, WORKERS: 1, ...at };
    }
  }

  const one = new Machine('one');
  const two = new Machine('two');
  const machines = [one, two];

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'weir-r-'));
    // The processes may run as another user.
    await chmod(directory, 0o711);
    await installNextRelease(join(directory, 'next'));
    await symlink(root, join(directory, 'today'));
    database = await emptyDatabase();
    for (const machine of machines) await machine.start('today');
  });
  afterAll(async () => {
    for (const { weir } of machines) await weir?.stop();
    await database?.drop();
    await rm(directory, { recursive: true });
  });

  const newestMigration = async () => {
    const text = 'select name from schema_migrations order by version desc limit 1';
    return (await database.sql<{ name: string }>(text))[0]!.name;
  };

  async function add<Made>(...words: string[]): Promise<Made> {
    const settings = { DATABASE_URL: database.conninfo, SECRETS_KEY: someKey, WORKERS: 1, DATA_DIR: one.weir.dataDir };
    const command = spawnWeir(settings, { command: [...words, '--json'] });
    if ((await command.ended) !== 0) throw new Error(command.stderr());
    return JSON.parse(command.lines.join('\n')) as Made;
  }

  async function addWebhook(): Promise<{ id: string; path: string; secret: string }> {
    const secret = 'a secret between friends';
    const given = ['--name', 'shop', '--secret', secret, '--dedupe-header', KEY_HEADER, '--rate-limit', '1000000'];
    const { id } = await add<{ id: string }>('webhook', 'add', ...given);
    return { id, path: `/in/${id}`, secret };
  }

  test('upgrade and roll back one after the other: the earlier build continues to serve and starts again, and every request is delivered once', async () => {
    expect(await newestMigration()).toBe(migrationFiles().at(-1)!.name);
    const webhook = await addWebhook();
    const url = `http://127.0.0.1:${one.weir.port}`;
    const given = ['agent', 'add', '--name', 'shipping', '--webhook', webhook.id];
    const added = await add<{ id: string; name: string; credential: string }>(...given);
    const agent = new TestAgent(url, added, await signIn({ url }, added.credential));
    const traffic = startTraffic(machines, webhook);
    const consumer = startConsumer(machines, agent);
    const more = async () => {
      await traffic.acceptMore(200);
      await consumer.settleMore(200);
    };
    await more();
    await one.start('next');
    expect(await newestMigration()).toBe(nextMigration);
    await more();
    // The machine of the earlier build continues to serve.
    const { port } = two.weir;
    const request = signedRequest({ secret: webhook.secret, body: '{}', headers: { [KEY_HEADER]: 'beside' } });
    const beside = await fetch(`http://127.0.0.1:${port}${webhook.path}`, request);
    expect(beside.status).toBe(202);
    traffic.accepted.set(((await beside.json()) as { id: string }).id, '{}');
    await two.start('today');
    await more();
    await two.start('next');
    await more();
    for (const machine of machines) await machine.start('today');
    await more();
    await traffic.stop();
    expect(traffic.unexpected).toEqual([]);
    const { accepted } = traffic;
    await until(() => consumer.settled.size >= accepted.size);
    await consumer.stop();
    expect([...consumer.settled].sort()).toEqual([...accepted.keys()].sort());
    const rows = await database.sql<{ id: string; body: Buffer }>('select id, body from events');
    expect(new Map(rows.map(({ id, body }) => [id, body.toString()]))).toEqual(accepted);
    const states = await database.sql('select state, count(*)::int from deliveries group by state');
    expect(states).toEqual([{ state: 'done', count: accepted.size }]);
  });
});

interface Served {
  readonly weir: Weir;
}

/** Sends until it is stopped, each request to the machines in turn until one accepts it. */
function startTraffic(machines: readonly Served[], { path, secret }: { path: string; secret: string }) {
  const accepted = new Map<string, string>();
  const unexpected: string[] = [];
  let stopped = false;
  let number = 0;

  async function send(body: string): Promise<void> {
    const request = signedRequest({ secret, body, headers: { [KEY_HEADER]: body } });
    for (let i = 0; ; i++) {
      const { port } = machines[i % machines.length]!.weir;
      const answer = await fetch(`http://127.0.0.1:${port}${path}`, request).catch(() => null);
      const text = await answer?.text().catch(() => null);
      if (answer && text && ACCEPTED.includes(answer.status)) {
        accepted.set((JSON.parse(text) as { id: string }).id, body);
        return;
      }
      if (answer && text && answer.status !== REPEATED) unexpected.push(`${answer.status} ${text}`);
      await delay(PACE_MS);
    }
  }
  async function lane(): Promise<void> {
    while (!stopped) {
      await send(JSON.stringify({ number: number++ }));
      await delay(PACE_MS);
    }
  }

  const running = Promise.all(Array.from({ length: LANES }, lane));
  return {
    /** Bodies by the ids in their responses. */
    accepted,
    /** Responses that neither accept a request nor ask for a repeat. */
    unexpected,
    async acceptMore(count: number) {
      const wanted = accepted.size + count;
      await until(() => accepted.size >= wanted);
    },
    async stop() {
      stopped = true;
      await running;
    },
  };
}

/** Claims and acknowledges until it is stopped, at the machines in turn. */
function startConsumer(machines: readonly Served[], agent: TestAgent) {
  const settled = new Set<string>();
  let stopped = false;
  async function run(): Promise<void> {
    for (let i = 0; !stopped; i++) {
      const url = `http://127.0.0.1:${machines[i % machines.length]!.weir.port}`;
      const there = new TestAgent(url, agent, agent.token);
      try {
        const claimed = await there.claim({ max: 100, lease_seconds: 5, wait_seconds: 1 });
        if (claimed.length === 0) continue;
        const done = new Set((await there.ack(claimed.map(({ receipt }) => receipt))).done);
        for (const { receipt, event } of claimed) if (done.has(receipt)) settled.add(event.id);
      } catch {
        await delay(PACE_MS);
      }
    }
  }
  const running = run();
  return {
    /** Ids of events. */
    settled,
    async settleMore(count: number) {
      const wanted = settled.size + count;
      await until(() => settled.size >= wanted);
    },
    async stop() {
      stopped = true;
      await running;
    },
  };
}
