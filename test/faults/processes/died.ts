/** Processes that die, which the operator knows of afterwards, or use too much memory, and a reader of the log that stops reading. */
import { hostname } from 'node:os';
import { expect, test } from 'vitest';
import type { TestApp } from '../../helpers/app.ts';
import type { Chain } from '../../helpers/chain.ts';
import { addPerson } from '../../helpers/people.ts';
import { processesOf } from '../../helpers/processes.ts';
import { DRAINING, missing } from '../../helpers/sender.ts';
import { until } from '../../helpers/wait.ts';
import { ask, kill } from '../../helpers/weir.ts';

export function diedTests(chain: Chain): void {
  test('kill -9 of a process is reported with its reason; processes that Weir ends are not', async () => {
    const { weir } = chain;
    const url = `http://127.0.0.1:${weir.port}`;
    const person = await addPerson(
      { database: weir.database, url, settings: { PUBLIC_URL: url } } as TestApp,
      'operator',
    );
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
        {
          at: expect.any(String),
          pid,
          reason: 'SIGKILL',
          ran_ms: expect.any(Number),
          recovered_ms: expect.any(Number),
        },
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
}

/** Each request has a line with its path: the 16 MiB that Weir holds are full after some 2,500. */
const LONG_PATH = `/${'x'.repeat(7_000)}`;

/** Weir has ended after these. */
export function logReaderTests(chain: Chain): void {
  const dropped = () => chain.weir.metric('weir_log_lines_dropped_total');

  async function fillLog(): Promise<void> {
    const before = await dropped();
    while ((await dropped()) === before)
      await Promise.all(
        Array.from({ length: 50 }, () =>
          ask(chain.weir.port, LONG_PATH).then(({ status }) => expect(status).toBe(404)),
        ),
      );
  }

  test('Weir continues to serve while nothing reads its log, and counts the lines that are lost', async () => {
    await chain.configure({ LOG_LEVEL: 'debug' });
    const sender = await chain.startLoad({ lanes: 4, first: 50 });
    chain.weir.child.stdout!.pause();
    await fillLog();
    await sender.acceptMore(100);
    await sender.stop();
    expect([sender.refusals, sender.losses]).toEqual([[], []]);
    expect(await missing(chain.weir.database, sender.accepted)).toEqual([]);

    // Every line that arrives is whole, and the log goes on.
    chain.weir.child.stdout!.resume();
    await until(async () => {
      await ask(chain.weir.port, '/after-the-outage');
      return chain.events('request').some(({ path }) => path === '/after-the-outage');
    });
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
}

/** A limit below what any process needs. */
const LIMIT = 64 * 1024 ** 2;

export function memoryTests(chain: Chain): void {
  test('each process is replaced once, one after the other, and nothing fails', async () => {
    await chain.configure({ PROCESS_MEMORY_MAX: LIMIT });
    // One of them may be leaving already.
    const before = chain
      .events('process_up')
      .map((line) => line.process)
      .slice(0, 2);
    const sender = await chain.startLoad({ first: 0, ...DRAINING });
    const replaced = () => chain.events('memory_replaced');
    let most = 0;
    await until(async () => {
      most = Math.max(most, (await chain.weir.servingPids()).length);
      return replaced().length >= before.length;
    });
    await sender.acceptMore(300);
    await sender.stop();

    expect(
      replaced()
        .slice(0, before.length)
        .map((line) => line.process)
        .sort(),
    ).toEqual(before.sort());
    for (const { bytes, limit_bytes } of replaced()) {
      expect(limit_bytes).toBe(LIMIT);
      expect(bytes).toBeGreaterThan(LIMIT);
    }
    const started = chain.events('process_up').map((line) => line.process);
    expect(started).toEqual(expect.arrayContaining(replaced().map((line) => line.by)));
    expect(most).toBeLessThanOrEqual(before.length + 1);
    // Each slot may be replaced again after a minute, which a slow machine may reach.
    expect(await chain.weir.metric('weir_processes_replaced_for_memory_total')).toBeGreaterThanOrEqual(before.length);
    expect(await chain.weir.metric('weir_process_restarts_total')).toBe(0);
    expect(sender.refusals).toEqual([]);
    expect(sender.losses.filter(({ reused }) => reused)).toEqual([]);
  });
}
