/** A disk of its own, which becomes full: nothing answered 202 is lost, and Weir recovers by itself when there is space. Needs root. */
import { mkdtemp, rm, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { missing, startSender } from '../helpers/sender.ts';
import { canMount, mountSmallDisk, skippedNote } from '../helpers/small-disk.ts';
import { until } from '../helpers/wait.ts';
import { PATIENCE_MS, readiness, startWeir } from '../helpers/weir.ts';

const TEST_MS = 300_000;
const eventually = { timeoutMs: 2 * PATIENCE_MS };
/** The database, its programs and its first WAL take about a half. */
const DISK = '400m';
const LEFT_BYTES = 8_000_000;

describe.runIf(canMount)(`a disk${skippedNote}`, () => {
  test('that is full, and has space again', { timeout: TEST_MS }, async () => {
    const disk = await mkdtemp(join(tmpdir(), 'weir-d-'));
    const unmount = mountSmallDisk(disk, DISK, 0o755);
    const weir = await startWeir({ DATA_DIR: join(disk, 'data'), WORKERS: 1 }).catch(async (error) => {
      unmount();
      throw error;
    });
    try {
      const webhook = await weir.addWebhook();
      const sender = startSender({ port: weir.port, ...webhook, lanes: 8, bodyBytes: 100_000 });
      await sender.acceptMore(20);
      const { bavail, bsize } = await statfs(disk);
      await writeFile(join(disk, 'ballast'), Buffer.alloc(bavail * bsize - LEFT_BYTES)).catch(
        // The events filled the disk first.
        ({ code }: NodeJS.ErrnoException) => expect(code).toBe('ENOSPC'),
      );
      await until(() => sender.refusals.length > 50, eventually);
      expect(new Set(sender.refusals.map(({ status }) => status))).toEqual(new Set([503]));
      await until(async () => (await readiness(weir.port))?.status === 503, eventually);

      await rm(join(disk, 'ballast'));
      const freedMs = performance.now();
      await sender.acceptMore(50);
      console.log(
        `events are stored again ${((performance.now() - freedMs) / 1000).toFixed(1)} s after the disk has space`,
      );
      await sender.stop();
      await until(async () => (await readiness(weir.port))?.status === 200, eventually);
      expect(sender.losses).toEqual([]);
      expect(await missing(weir.database, sender.accepted)).toEqual([]);
      for (const event of ['request_failed', 'crash', 'process_exited']) expect(weir.events(event)).toEqual([]);
    } finally {
      await weir.stop().finally(unmount);
      await rm(disk, { recursive: true, force: true });
    }
  });
});
