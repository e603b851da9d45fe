/** PROCESS_MEMORY_MAX: a process over it is replaced without a failed request. */
import { expect, test } from 'vitest';
import type { Chain } from '../../helpers/chain.ts';
import { until } from '../../helpers/wait.ts';

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
    const sender = await chain.startLoad({ first: 0 });
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
