/** One Weir whose processes are replaced, frozen, ended and held up in turn: it serves, and loses nothing. */
import { hostname } from 'node:os';
import { expect, test } from 'vitest';
import { commands } from '../../server/cli/commands.ts';
import { chainOf } from '../helpers/chain.ts';
import { runCommands } from '../helpers/command.ts';
import { addPerson } from '../helpers/people.ts';
import { processesOf } from '../helpers/processes.ts';
import { DRAINING } from '../helpers/sender.ts';
import { until } from '../helpers/wait.ts';
import { asApp, ask, kill, readiness } from '../helpers/weir.ts';
import { frozen } from './kinds.ts';
import { endTests } from './processes/ends.ts';
import { underLoad } from './under-load.ts';

/** A limit of memory below what any process needs. */
const LIMIT = 64 * 1024 ** 2;
/** Each request has a line with its path: the 16 MiB that Weir holds are full after some 2,500. */
const LONG_PATH = `/${'x'.repeat(7_000)}`;

// No test waits for this PROCESS_SILENT_SECONDS.
const chain = chainOf(undefined, { PROCESS_SILENT_SECONDS: 3_600, DRAIN_SECONDS: 60 });
const load = underLoad(chain);

test('kill -9 of a process is reported with its reason; processes that Weir ends are not', async () => {
  const { weir } = chain;
  const person = await addPerson(asApp(weir), 'operator');
  const deaths = async () => (await person.api('GET', '/api/v1/status?wait_seconds=0')).body.process_deaths;
  const issues = async () => (await person.api('GET', '/api/v1/issues?kind=process_died')).body.items;

  // The first three processes end as planned: two by the rolling restart, one by TTOU.
  await chain.restart();
  weir.signal('SIGTTIN');
  await until(async () => (await weir.servingPids()).length === 3);
  weir.signal('SIGTTOU');
  await until(async () => (await weir.servingPids()).length === 2);
  expect([await deaths(), await issues()]).toEqual([{ total: 0, newest: [] }, []]);
  expect((await person.browse('GET', '/status')).text).not.toContain('Processes that died');

  const [pid] = await weir.servingPids();
  const killedMs = Date.now();
  kill(pid!, 'SIGKILL');
  const known = await until(async () => {
    const found = await deaths().catch(() => null);
    return found?.newest[0]?.recovered_ms > 0 && found;
  });
  expect(known).toEqual({
    total: 1,
    newest: [
      { at: expect.any(String), pid, reason: 'SIGKILL', ran_ms: expect.any(Number), recovered_ms: expect.any(Number) },
    ],
  });
  expect(Math.abs(Date.parse(known.newest[0].at) - killedMs)).toBeLessThan(60_000);
  const text = `1 process of machine ${hostname()} died within 60 minutes: SIGKILL.`;
  await until(async () => (await issues())[0]?.title === text);
  expect((await person.browse('GET', '/')).text).toContain(text.slice(0, -1));
  expect((await person.browse('GET', '/status')).text).toMatch(
    new RegExp(`Processes that died.*<td data-label="Process">${pid}</td>.*<td class="wrap">SIGKILL</td>`, 's'),
  );
});

test('TTIN and TTOU: one process more or fewer, never zero', async () => {
  const amount = async (count: number) => {
    await until(async () => (await chain.weir.servingPids()).length === count);
    await until(async () => (await chain.weir.metric('weir_processes')) === count);
  };
  chain.weir.signal('SIGTTIN');
  await amount(3);
  for (const count of [2, 1]) {
    chain.weir.signal('SIGTTOU');
    await amount(count);
  }
  chain.weir.signal('SIGTTOU');
  // Two pending signals are delivered by number, not in order: the response of the page shows that the first has arrived.
  await amount(1);
  chain.weir.signal('SIGTTIN');
  await amount(2);
  expect(chain.events('processes_changed').map(({ processes }) => processes)).toEqual([3, 2, 1, 2]);
});

test('weir processes: shows them, sets their number, and refuses more than the database has connections for', async () => {
  const run = async (...words: string[]) => {
    const { code, out, err } = await runCommands(commands, chain.weir.dataDir, { DATA_DIR: chain.weir.dataDir }, words);
    return { code, pids: [...out.matchAll(/^(\d+) +serving .*Z$/gm)].map(([, pid]) => Number(pid)), out, err };
  };
  const before = await run('processes');
  expect(before.pids).toEqual(await chain.weir.servingPids());
  expect(before.out).toMatch(/\nAll run \d+\.\d+\.\d+ \(\S+\)\.\n$/);
  expect((await run('processes', '3')).pids).toEqual([...before.pids, expect.any(Number)]);
  expect(await run('processes', '1000')).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^weir: the database allows \d+ connections, but WORKERS=1000 and /),
  });
  expect(await run('processes', '0')).toMatchObject({ code: 2 });
  expect((await run('processes', '2')).pids).toHaveLength(2);
  await until(() => chain.events('processes_changed').length === 2);
  expect(chain.events('processes_changed').map(({ processes }) => processes)).toEqual([3, 2]);
});

load.test('a stopped process delays the requests of its connections, and loses none when it continues', {
  more: 500,
  async make(sender) {
    expect(sender.answeredBy.size).toBe(2);
    const restarts = await chain.weir.metric('weir_process_restarts_total');
    const thaw = frozen((await chain.weir.servingPids()).slice(0, 1));
    return async () => {
      thaw();
      expect(await chain.weir.metric('weir_process_restarts_total')).toBe(restarts);
    };
  },
  // The other process accepts these requests.
  during: (sender) => sender.acceptMore(500),
});

load.test('a process that does not answer for PROCESS_SILENT_SECONDS is replaced', {
  settings: { PROCESS_SILENT_SECONDS: 10 },
  more: 500,
  losses: 'in progress',
  async make() {
    const [victim] = await chain.weir.servingPids();
    const thaw = frozen([victim!]);
    await until(() => chain.events('process_exited').length > 0);
    expect(chain.events('process_exited')).toMatchObject([
      { process: victim, reason: 'it did not answer for 10 s (PROCESS_SILENT_SECONDS)' },
    ]);
    await until(async () => (await chain.weir.metric('weir_processes')) === 2);
    return thaw;
  },
  // At most one request a connection was in progress at the stopped process.
  after: ({ losses }) => expect(losses.length).toBeLessThanOrEqual(32),
});

load.test('while the primary is stopped, its processes serve; it continues without replacing them', {
  async make() {
    const before = await chain.weir.servingPids();
    const thaw = frozen([chain.weir.pid]);
    return async () => {
      thaw();
      await until(async () => (await chain.weir.metric('weir_processes')) === 2);
      expect(await chain.weir.servingPids()).toEqual(before);
    };
  },
  async during(sender) {
    // For longer than the processes need to notice the silence of the primary (1 s): then they check with the database.
    const untilMs = performance.now() + 12_000;
    while (performance.now() < untilMs) await sender.acceptMore(100);
    expect((await readiness(chain.weir.port))?.status).toBe(200);
  },
});

endTests(chain);

load.test('each process is replaced once, one after the other, and nothing fails', {
  settings: { PROCESS_MEMORY_MAX: LIMIT },
  load: { first: 0, ...DRAINING },
  losses: 'of new connections',
  async make() {
    // One of them may be leaving already.
    const before = processesOfEvents('process_up').slice(0, 2);
    let most = 0;
    await until(async () => {
      most = Math.max(most, (await chain.weir.servingPids()).length);
      return chain.events('memory_replaced').length >= before.length;
    });
    expect(most).toBeLessThanOrEqual(before.length + 1);
    expect(processesOfEvents('memory_replaced').slice(0, before.length).sort()).toEqual(before.sort());
  },
  async after() {
    const replaced = chain.events('memory_replaced');
    for (const { bytes, limit_bytes } of replaced) {
      expect(limit_bytes).toBe(LIMIT);
      expect(bytes).toBeGreaterThan(LIMIT);
    }
    expect(processesOfEvents('process_up')).toEqual(expect.arrayContaining(replaced.map((line) => line.by)));
    // Each slot may be replaced again after a minute, which a slow machine may reach.
    expect(await chain.weir.metric('weir_processes_replaced_for_memory_total')).toBeGreaterThanOrEqual(2);
    expect(await chain.weir.metric('weir_process_restarts_total')).toBe(0);
  },
});

const processesOfEvents = (name: string) => chain.events(name).map((line) => line.process);
const dropped = () => chain.weir.metric('weir_log_lines_dropped_total');

async function fillLog(): Promise<void> {
  const before = await dropped();
  while ((await dropped()) === before)
    await Promise.all(
      Array.from({ length: 50 }, () => ask(chain.weir.port, LONG_PATH).then(({ status }) => expect(status).toBe(404))),
    );
}

load.test('Weir continues to serve while nothing reads its log, and counts the lines that are lost', {
  settings: { LOG_LEVEL: 'debug' },
  load: { lanes: 4, first: 50 },
  async make() {
    chain.weir.child.stdout!.pause();
    await fillLog();
    return () => void chain.weir.child.stdout!.resume();
  },
  during: (sender) => sender.acceptMore(100),
  // Every line that arrives is whole, and the log continues.
  after: () =>
    until(async () => {
      await ask(chain.weir.port, '/after-the-outage');
      return chain.events('request').some(({ path }) => path === '/after-the-outage');
    }),
});

test('TERM ends Weir although nothing reads its log', async () => {
  chain.weir.child.stdout!.pause();
  await fillLog();
  const ended = new Promise((resolve) => chain.weir.child.once('exit', (code, signal) => resolve(signal ?? code)));
  chain.weir.signal('SIGTERM');
  // The exit code is lost with the log: nothing but SIGKILL ends a program whose write does not return.
  expect(await ended).toBe('SIGKILL');
  expect(await processesOf(chain.weir.dataDir)).toEqual([]);
  chain.weir.child.stdout!.resume();
  await chain.weir.ended;
});
