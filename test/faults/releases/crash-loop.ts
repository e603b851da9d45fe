/** Processes that exit as soon as they start: Weir stops and reports it in JSON lines. */
import { rm } from 'node:fs/promises';
import { expect, test } from 'vitest';
import type { Chain } from '../../helpers/chain.ts';
import type { Installation } from '../../helpers/installation.ts';
import { freePort } from '../../helpers/ports.ts';
import { processesOf } from '../../helpers/processes.ts';
import { someKey } from '../../helpers/settings.ts';
import { makeDataDir, spawnWeir } from '../../helpers/weir.ts';

/** @param chain runs on the same database @param installation restored before its next process starts */
export function crashLoopTests(chain: Chain, installation: () => Installation): void {
  test('a process that cannot start ends the service with exit code 1', async () => {
    await installation().replace(
      'server/operate/process/app.ts',
      (built) => `${built}\nthrow new Error('this file is broken');`,
    );
    const dataDir = await makeDataDir();
    const weir = spawnWeir(
      {
        DATABASE_URL: chain.weir.conninfo,
        SECRETS_KEY: someKey,
        DATA_DIR: dataDir,
        PORT: await freePort(),
        METRICS_PORT: await freePort(),
        // Ten consecutive exits with growing pauses: as many as can exit in the first batch.
        WORKERS: 10,
      },
      { entry: installation().entry },
    );
    try {
      expect(await weir.ended).toBe(1);
      expect(weir.events('crash_loop')).toMatchObject([
        {
          level: 60,
          reason: '10 consecutive processes ended before they served (last: 1)',
        },
      ]);
      expect(weir.events('process_exited').length).toBeGreaterThanOrEqual(10);
      // The last output of a process is part of the log.
      expect(weir.events('process_output').map(({ line }) => line)).toContainEqual(
        expect.stringContaining('\nError: this file is broken\n    at '),
      );
      // They never listened, and the log does not claim it.
      expect(weir.events('listening')).toEqual([]);
      expect(weir.events('stopped')).toHaveLength(1);
      expect(await processesOf(dataDir)).toEqual([]);
    } finally {
      weir.child.kill('SIGKILL');
      await weir.ended;
      await installation().repair();
      await rm(dataDir, { recursive: true });
    }
  });
}
