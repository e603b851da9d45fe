/** The drill: a backup of an installation that receives requests, restored into an empty server. */

import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DAY_MS } from '../../../server/base/time/durations.ts';
import { dropOldPartitions } from '../../../server/store/retention/drop-partitions.ts';
import { createPartitions, partitionName } from '../../../server/store/retention/partitions.ts';
import type { Chain } from '../../helpers/chain.ts';
import { hold } from '../../helpers/hold.ts';
import { emptyDatabase } from '../../helpers/postgres.ts';
import { missing } from '../../helpers/sender.ts';
import { ofTest } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { spawnWeir } from '../../helpers/weir.ts';

export function backupTests(chain: Chain): void {
  describe('a backup', () => {
    let directory: string;
    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'weir-b-'));
    });
    afterAll(() => rm(directory, { recursive: true }));

    /** Holds the last table of the list: the backup waits for it with locks on all other tables. */
    async function holdBackup() {
      await chain.weir.sql('create table if not exists zz_held (id int)');
      const conninfo = `host='${chain.weir.dataDir}/postgres' user=weir dbname=weir`;
      return hold(conninfo, 'lock table zz_held in access exclusive mode');
    }

    const isHeld = async () => {
      const text = `select from pg_stat_activity where wait_event_type = 'Lock' and query like 'lock table "%'`;
      return (await chain.weir.sql(text)).length === 1;
    };

    const command = (...args: string[]) => {
      const child = spawnWeir({ DATA_DIR: chain.weir.dataDir }, { command: args });
      return {
        child,
        document: async () => ({ code: await child.ended, ...JSON.parse(child.lines.join('') || '{}') }),
      };
    };

    test('a backup under load is restored with equal contents, and what arrived after it is counted', async () => {
      const sender = await chain.startLoad({ first: 500 });
      const before = new Map(sender.accepted);
      const path = join(directory, 'chain.weir.dump');
      const backup = await command('backup', path, '--json').document();
      expect(backup).toMatchObject({ code: 0, file: path });
      await sender.acceptMore(300);
      await sender.stop();
      expect(sender.refusals).toEqual([]);

      const target = await ofTest(emptyDatabase());
      const restored = await command('restore', path, '--into', target.conninfo, '--json').document();
      const stored = await chain.weir.sql('select id from events');
      expect(restored).toMatchObject({
        code: 0,
        compared: true,
        differences: [],
        events: backup.events,
        arrived_after: stored.length - backup.events,
      });
      expect(restored.arrived_after).toBeGreaterThanOrEqual(300);
      // What was answered before the backup began is in it.
      expect(await missing(target.database, before)).toEqual([]);
    });

    test('ingest, new partitions and retention go on while a backup holds its locks', async () => {
      const oldMs = Date.now() - 60 * DAY_MS;
      await createPartitions(chain.weir.database, oldMs);
      const release = await holdBackup();
      const path = join(directory, 'held.dump');
      const backup = command('backup', path, '--json');
      await until(isHeld);

      const sender = await chain.startLoad({ first: 0 });
      // CREATE .. PARTITION OF would wait here, and every COPY behind it.
      const made = await createPartitions(chain.weir.database, Date.now() + 20 * DAY_MS);
      expect(made).toContain(partitionName('events', Date.now() + 20 * DAY_MS));
      // DETACH waits for the backup, and ingest does not wait for DETACH.
      const dropped = dropOldPartitions(chain.weir.database, 30, Date.now()).catch(() => {});
      await sender.acceptMore(300);
      await release();
      expect(await backup.document()).toMatchObject({ code: 0 });
      await dropped;
      await sender.acceptMore(300);
      expect(sender.refusals).toEqual([]);
      // A DETACH that was interrupted is completed by the next run, or by the maintenance of Weir beside it.
      await until(async () => (await dropOldPartitions(chain.weir.database, 30, Date.now())).busy === null);
      const left = await chain.weir.sql('select from pg_class where relname = $1', partitionName('events', oldMs));
      expect(left).toEqual([]);
    });

    test('a backup that a signal ends leaves no file, and one that is killed does not block the next', async () => {
      await chain.startLoad({ first: 0 });
      const path = join(directory, 'ended.dump');
      const files = async () => (await readdir(directory)).filter((name) => name.startsWith('ended'));

      const release = await holdBackup();
      const stopped = command('backup', path).child;
      await until(isHeld);
      const refused = command('backup', path).child;
      expect([await refused.ended, refused.stderr()]).toEqual([
        1,
        expect.stringContaining('Another backup is writing'),
      ]);
      stopped.child.kill('SIGTERM');
      await release();
      expect([await stopped.ended, stopped.stderr()]).toEqual([1, expect.stringContaining('Stopped by a signal')]);
      expect(await files()).toEqual([]);

      const releaseAgain = await holdBackup();
      const killed = command('backup', path).child;
      await until(isHeld);
      killed.child.kill('SIGKILL');
      await killed.ended;
      expect(await files()).toEqual(['ended.dump.unfinished']);
      await releaseAgain();
      expect(await command('backup', path, '--json').document()).toMatchObject({ code: 0 });
      expect(await files()).toEqual(['ended.dump']);
    });
  });
}
