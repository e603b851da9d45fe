/** The disk of a cell becomes full: only its webhooks are refused, and Weir recovers by itself when there is space. Needs root. */
import { statfs } from 'node:fs/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Check } from '../../../server/model/check.ts';
import { postgresPids } from '../../helpers/processes.ts';
import { canMount, resizeDisk, skippedNote } from '../../helpers/small-disk.ts';
import { until } from '../../helpers/wait.ts';
import { type CellInstallation, DISK_SIZE } from './installation.ts';

const LEFT_BYTES = 4_000_000;

export function fullDiskTests(installation: CellInstallation): void {
  describe.runIf(canMount)(`a cell on a disk${skippedNote}`, () => {
    test('that is full: only its webhooks get 503, it is named, and it recovers', async () => {
      const { weir, servers, spawn, startLoad, cellsAway, expectNothingLost } = installation;
      const { dataDir } = servers[0]!;
      const senders = await startLoad((cell) => (cell === 1 ? { bodyBytes: 100_000 } : {}));
      const lines = weir.lines.length;
      const { blocks, bfree, bsize } = await statfs(dataDir);
      onTestFinished(() => resizeDisk(dataDir, DISK_SIZE));
      resizeDisk(dataDir, String((blocks - bfree) * bsize + LEFT_BYTES));
      await until(() => senders[1]!.refusals.length > 50);
      expect(new Set(senders[1]!.refusals.map(({ status, code }) => `${status} ${code}`))).toEqual(
        new Set(['503 database_unavailable']),
      );
      await until(async () => (await cellsAway()).includes(1));
      const reasons = () => weir.events('cell_away', lines).map(({ cell, reason }) => `${cell} ${reason}`);
      await until(() => reasons().some((reason) => /^1 its disk is full \(53100: /.test(reason)));
      const doctor = spawn('doctor');
      await doctor.ended;
      const { checks } = JSON.parse(doctor.lines.join('\n')) as { checks: Check[] };
      expect(checks.filter(({ name, state }) => name === 'cell' && state === 'problem')).toMatchObject([
        { finding: expect.stringMatching(/^cell 1 \(.*its disk is full/), fix: expect.stringContaining('free space') },
      ]);
      await Promise.all([senders[0]!.acceptMore(100), senders[2]!.acceptMore(100)]);

      resizeDisk(dataDir, DISK_SIZE);
      // Postgres itself went on, without a restart.
      expect(await postgresPids(dataDir)).not.toBeNull();
      await expectNothingLost(senders);
      expect([senders[0]!.refusals, senders[2]!.refusals]).toEqual([[], []]);
      expect(senders.flatMap(({ losses }) => losses)).toEqual([]);
      const counts = senders.map(
        ({ accepted, refusals }, cell) => `cell ${cell}: 202 ${accepted.size}, 503 ${refusals.length}`,
      );
      console.log(`${counts.join('; ')}; lost 0`);
      for (const event of ['request_failed', 'crash', 'process_exited']) expect(weir.events(event, lines)).toEqual([]);
    });
  });
}
