/** The program as run by a shell. */
import { rm } from 'node:fs/promises';
import { expect, onTestFinished, test } from 'vitest';
import { processesOf } from '../helpers/processes.ts';
import { until } from '../helpers/wait.ts';
import { makeDataDir, spawnWeir } from '../helpers/weir.ts';

test('a command whose reader exits, like head, completes its work and succeeds', async () => {
  const dataDir = await makeDataDir();
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const weir = spawnWeir({ DATA_DIR: dataDir }, { command: ['webhook', 'list'] });
  weir.child.stdout!.destroy();
  weir.child.stderr!.destroy();
  expect(await weir.ended).toBe(0);
  // The database that it started.
  await until(async () => (await processesOf(dataDir)).length === 0);
});
