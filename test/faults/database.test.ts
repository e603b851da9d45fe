/** One Weir with its embedded Postgres, whose processes and database fail in turn: it recovers by itself each time. */
import { mkdir, mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { chainOf } from '../helpers/chain.ts';
import { isListening, look, postgresPids } from '../helpers/processes.ts';
import { signedRequest } from '../helpers/requests.ts';
import { missing } from '../helpers/sender.ts';
import { canMount, mountSmallDisk, resizeDisk, skippedNote } from '../helpers/small-disk.ts';
import { until } from '../helpers/wait.ts';
import { copyDataDir, kill, readiness } from '../helpers/weir.ts';
import { takeConnections } from './database/greedy.ts';
import { readOnlyTests } from './database/read-only.ts';
import { frozen } from './kinds.ts';
import { expectNothingLost, underLoad } from './under-load.ts';

const DISK_SIZE = '2g';
const LEFT_BYTES = 8_000_000;
const KEY_HEADER = 'x-delivery';
const QUEUE_EVENTS_MAX = 40;
const unavailable = ['database_unavailable'];

let disk: string | undefined;
let unmount = () => {};

// Runs after the hook of the chain, which stops Weir.
afterAll(async () => {
  unmount();
  if (disk !== undefined) await rm(disk, { recursive: true });
});

/** DATA_DIR on a disk of its own, where that is possible. */
const chain = chainOf(
  async () => {
    if (!canMount) return {};
    disk = await mkdtemp(join(tmpdir(), 'weir-d-'));
    unmount = mountSmallDisk(disk, DISK_SIZE, 0o755);
    const dataDir = join(disk, 'data');
    await mkdir(dataDir, { mode: 0o711 });
    return { environment: { DATA_DIR: await copyDataDir(dataDir) } };
  },
  // A lost connection must be detected by its socket (an error may wake no poller, see store/copy/connection.ts).
  { COMMIT_TIMEOUT_MS: 600_000 },
);
const load = underLoad(chain);

const postgres = async () => (await postgresPids(chain.weir.dataDir))!;
const run = (text: string) => chain.weir.sql<Record<string, string>>(text);
const is503 = () =>
  until(async () => {
    const answer = await readiness(chain.weir.port);
    return answer?.status === 503 && answer;
  });

load.test('a killed process is replaced, and the others continue to serve', {
  losses: 'in progress',
  async make() {
    const { weir } = chain;
    const restarts = await weir.metric('weir_process_restarts_total');
    const before = await weir.servingPids();
    kill(before[0]!, 'SIGKILL');
    const after = await until(async () => {
      const pids = await weir.servingPids();
      return pids.length === 2 && !pids.includes(before[0]!) && pids;
    });
    expect(after).toContain(before[1]);
    await until(() => chain.events('process_up').some((line) => line.process === after[1]));
    expect(chain.events('process_exited')).toMatchObject([{ process: before[0], reason: 'SIGKILL' }]);
    expect(await weir.metric('weir_process_restarts_total')).toBe(restarts + 1);
  },
});

load.test('a Postgres session during a COPY', {
  load: { perSecondMax: Infinity },
  refusals: unavailable,
  async make(sender) {
    const text = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'weir-copy' and state = 'active'`;
    for (let cut = 0; cut < 12; ) {
      const rows = await run(text);
      cut += rows.length;
      if (rows.length > 0) await sender.acceptMore(50);
    }
    expect(sender.refusals.length).toBeGreaterThan(0);
  },
});

load.test('Postgres itself', {
  refusals: unavailable,
  async make(sender) {
    const { postmaster } = await postgres();
    kill(postmaster, 'SIGKILL');
    expect(await is503()).toMatchObject({ retryAfter: '1', checks: { database: 'failing' } });
    await until(() => sender.refusals.length > 0);
    await sender.acceptMore(1);
    expect((await postgres()).postmaster).not.toBe(postmaster);
  },
});

load.test('a Postgres whose connections another program has taken', {
  load: { lanes: 8, first: 100 },
  refusals: unavailable,
  async make(sender) {
    const other = await takeConnections(chain.weir.dataDir);
    // Connections that are open stay in use.
    await sender.acceptMore(100);
    expect(sender.refusals).toEqual([]);
    await other.takeThoseOfWeir();
    return other.end;
  },
  async during(sender) {
    await until(async () => (await chain.weir.metric('weir_database_up')) === 0);
    const before = sender.refusals.length;
    await until(() => sender.refusals.length > before + 20);
    expect((await is503()).checks.database).toBe('failing');
    await until(() => chain.events('database_down').length > 0);
  },
});

/** Such a row is visible at once, but a failover would lose it. */
test.each([
  { name: 'COPY', webhook: {} },
  { name: 'a statement', webhook: { dedupe_header: KEY_HEADER } },
])('a leader that crashes: a row of $name that no standby has is not answered 202', async ({ webhook }) => {
  const { weir } = chain;
  const { id, path, secret } = await weir.addWebhook(undefined, webhook);
  await run(`alter system set synchronous_standby_names = 'nobody'`);
  await run('select pg_reload_conf()');
  const headers = { [KEY_HEADER]: 'a key' };
  const answer = fetch(`http://127.0.0.1:${weir.port}${path}`, signedRequest({ secret, headers }));
  // It waits for the standby.
  await until(async () => (await run(`select from pg_stat_activity where wait_event = 'SyncRep'`)).length > 0);
  kill((await postgres()).postmaster, 'SIGKILL');
  expect((await answer).status).toBe(503);
  const stored = () => run(`select from events where webhook_id = '${id}'`);
  expect(await until(() => stored().catch(() => null))).toHaveLength(1);
  await until(() => run('alter system reset synchronous_standby_names').catch(() => null));
  await run('select pg_reload_conf()');
  await until(async () => (await readiness(weir.port))?.status === 200);
});

readOnlyTests(chain, load);

test('the primary: its processes end, and the next primary joins the running Postgres', async () => {
  const { weir } = chain;
  const sender = await chain.startLoad();
  const processes = await weir.servingPids();
  const { postmaster } = await postgres();
  kill(weir.pid, 'SIGKILL');
  await until(async () => (await Promise.all(processes.map(look))).every((seen) => seen === null));
  await until(async () => !(await isListening(weir.port)));
  await sender.stop();

  // One process, whose queue is full soon.
  await chain.startAgain({ WORKERS: 1, COMMIT_TIMEOUT_MS: 1000, QUEUE_EVENTS_MAX });
  expect((await postgres()).postmaster).toBe(postmaster);
  expect(await missing(chain.weir.database, sender.accepted)).toEqual([]);
  const again = await chain.startLoad();
  await again.stop();
  await expectNothingLost(chain, again);
});

load.test('a hung Postgres: 503 within the commit timeout, and normal service after it resumes', {
  load: { lanes: 100, perSecondMax: Infinity, first: 200 },
  // More requests than the queue holds: the others are refused at once, and memory stays bounded.
  refusals: ['queue_full', ...unavailable],
  async make() {
    const { postmaster } = await postgres();
    // All its current processes: a stopped postmaster forks no more.
    const first = frozen([postmaster]);
    const rest = frozen((await postgres()).backends);
    return () => [first(), rest()];
  },
  async during(sender) {
    await until(() => new Set(sender.refusals.map(({ code }) => code)).size === 2);
    expect(await chain.weir.metric('weir_queue_events')).toBeLessThanOrEqual(QUEUE_EVENTS_MAX);
    expect((await is503()).checks.database).toBe('failing');
    // Postgres is stopped: a response did not wait for it.
    for (let asked = 0; asked < 5; asked++) expect((await readiness(chain.weir.port))?.status).toBe(503);
  },
});

test('a commit whose result is lost is looked up and answered 202', async () => {
  const { weir } = chain;
  const inDoubt = () => weir.metric('weir_events_in_doubt_total');
  // With a missing synchronous standby, Postgres has committed but does not report it: then the session is closed.
  const awaitStandby = async (name: string) => {
    await run(`alter system set synchronous_standby_names = '${name}'`);
    await run('select pg_reload_conf()');
    await until(async () => (await run('show synchronous_standby_names'))[0]!.synchronous_standby_names === name);
  };
  const lookedUp = () => chain.events('commit_in_doubt').filter(({ found }) => found === 1).length;
  const doubtful = await inDoubt();
  await awaitStandby('nobody');
  const sender = await chain.startLoad({ lanes: 1, first: 0 });
  // A COPY from before does not wait for the standby and may succeed.
  await until(async () => {
    await run("select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'");
    return lookedUp() >= 5;
  }).finally(() => awaitStandby(''));
  await sender.stop();
  expect(sender.accepted.size).toBeGreaterThanOrEqual(5);
  expect(await inDoubt()).toBeGreaterThanOrEqual(doubtful + 5);
  expect(await missing(weir.database, sender.accepted)).toEqual([]);
});

load.test(`a disk that is full, and has space again${skippedNote}`, {
  // Needs root.
  possible: canMount,
  load: { lanes: 8, bodyBytes: 100_000, first: 20 },
  refusals: ['queue_full', ...unavailable],
  async make() {
    const { blocks, bfree, bsize } = await statfs(disk!);
    resizeDisk(disk!, String((blocks - bfree) * bsize + LEFT_BYTES));
    return () => resizeDisk(disk!, DISK_SIZE);
  },
  async during(sender) {
    await until(() => sender.refusals.length > 50);
    await is503();
  },
  after() {
    for (const event of ['request_failed', 'crash', 'process_exited']) expect(chain.events(event)).toEqual([]);
  },
});
