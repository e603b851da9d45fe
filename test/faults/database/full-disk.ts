/** The disk of DATA_DIR becomes full: nothing answered 202 is lost, and Weir recovers by itself when there is space. Needs root. */
import { statfs } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import type { Chain } from '../../helpers/chain.ts';
import { missing } from '../../helpers/sender.ts';
import { canMount, resizeDisk, skippedNote } from '../../helpers/small-disk.ts';
import { PATIENCE_MS, until } from '../../helpers/wait.ts';
import { readiness } from '../../helpers/weir.ts';

const eventually = { timeoutMs: 2 * PATIENCE_MS };
const LEFT_BYTES = 8_000_000;

/** @param disk where it is mounted @param size the usual one */
export function fullDiskTests(chain: Chain, disk: () => string, size: string): void {
  describe.runIf(canMount)(`a disk${skippedNote}`, () => {
    test('that is full, and has space again', async () => {
      const { weir } = chain;
      const sender = await chain.startLoad({ lanes: 8, bodyBytes: 100_000, first: 20 });
      const { blocks, bfree, bsize } = await statfs(disk());
      resizeDisk(disk(), String((blocks - bfree) * bsize + LEFT_BYTES));
      await until(() => sender.refusals.length > 50, eventually);
      expect(new Set(sender.refusals.map(({ status }) => status))).toEqual(new Set([503]));
      await until(async () => (await readiness(weir.port))?.status === 503, eventually);

      resizeDisk(disk(), size);
      const freedMs = performance.now();
      await sender.acceptMore(50);
      console.log(
        `events are stored again ${((performance.now() - freedMs) / 1000).toFixed(1)} s after the disk has space`,
      );
      await sender.stop();
      await until(async () => (await readiness(weir.port))?.status === 200, eventually);
      expect(sender.losses).toEqual([]);
      expect(await missing(weir.database, sender.accepted)).toEqual([]);
      for (const event of ['request_failed', 'crash', 'process_exited']) expect(chain.events(event)).toEqual([]);
    });
  });
}
