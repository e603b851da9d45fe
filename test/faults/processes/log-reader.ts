/** A reader of the log that stops reading: Weir continues to serve, counts the lost lines, and can still be stopped. */
import { expect, test } from 'vitest';
import type { Chain } from '../../helpers/chain.ts';
import { processesOf } from '../../helpers/processes.ts';
import { missing } from '../../helpers/sender.ts';
import { until } from '../../helpers/wait.ts';
import { ask } from '../../helpers/weir.ts';

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
