/** Point-in-time recovery, by the commands of the guide: WAL archiving, a base backup, and a recovery to before a mistake. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findTools } from '../../../server/operate/backup/tools.ts';
import type { Chain } from '../../helpers/chain.ts';
import { missing } from '../../helpers/sender.ts';
import { until } from '../../helpers/wait.ts';

const guide = readFileSync(join(import.meta.dirname, '../../../views/docs/data.md'), 'utf8');
const section = guide.slice(guide.indexOf('## Point-in-time recovery'));
const [archive, baseBackup, recover] = [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, script]) => script!);

/** Weir is started twice, and archives its WAL from then on. */
export function pointInTimeTests(chain: Chain): void {
  const countStored = async () => (await chain.weir.sql('select from events')).length;

  test('the commands of the guide restore every event up to the given time', async () => {
    const { dataDir } = chain.weir;
    // Removed with DATA_DIR: until its end, Postgres archives its WAL there.
    const outside = join(dataDir, 'outside');
    await mkdir(outside, { mode: 0o711 });
    const [tools] = await findTools(15);
    const variables = { DATA_DIR: dataDir, ARCHIVE: join(outside, 'wal'), BASE: join(outside, 'base') };
    const run = (script: string, more = {}) =>
      execFileSync('sh', ['-e', '-c', script], {
        env: { ...variables, ...more, PATH: `${tools!.directory}:${process.env.PATH}` },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
    const restart = async (between = () => {}) => {
      chain.weir.signal('SIGTERM');
      await chain.weir.ended;
      between();
      await chain.startAgain();
    };
    const accepted = new Map<string, string>();
    const before = await countStored();
    const send = async (count: number, during = () => {}) => {
      const sender = await chain.startLoad({ first: count });
      during();
      await sender.acceptMore(count);
      await sender.stop();
      expect(sender.refusals).toEqual([]);
      for (const [id, body] of sender.accepted) accepted.set(id, body);
    };

    run(archive!);
    await restart();
    await send(100, () => run(baseBackup!));
    await send(100);
    const [{ now }] = (await chain.weir.sql<{ now: string }>('select clock_timestamp()::text as now')) as [
      { now: string },
    ];
    // The mistake. Its commit is behind the given time.
    await chain.weir.sql('delete from events');
    await until(async () => (await readdir(variables.ARCHIVE)).length > 0);

    await restart(() => run(recover!, { RECOVER_TO: now }));
    expect(await missing(chain.weir.database, accepted)).toEqual([]);
    expect(await countStored()).toBe(before + accepted.size);
    await send(50);
    expect(await missing(chain.weir.database, accepted)).toEqual([]);
  });
}
