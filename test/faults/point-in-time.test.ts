/** Point-in-time recovery, by the commands of the guide: WAL archiving, a base backup, and a recovery to before a mistake. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { findTools } from '../../server/backup/tools.ts';
import { missing, startSender } from '../helpers/sender.ts';
import { until } from '../helpers/wait.ts';
import { makeDataDir, PATIENCE_MS, startWeir, type Weir } from '../helpers/weir.ts';

const TEST_MS = 240_000;
const guide = readFileSync(join(import.meta.dirname, '../../views/docs/operating.md'), 'utf8');
const section = guide.slice(guide.indexOf('## Point-in-time recovery'));
const [archive, baseBackup, recover] = [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, script]) => script!);

test('the commands of the guide restore every event up to the given time', { timeout: TEST_MS }, async () => {
  const outside = await mkdtemp(join(tmpdir(), 'weir-w-'));
  const dataDir = await makeDataDir();
  const [tools] = await findTools(15);
  const variables = { DATA_DIR: dataDir, ARCHIVE: join(outside, 'wal'), BASE: join(outside, 'base') };
  const run = (script: string, more = {}) =>
    execFileSync('sh', ['-e', '-c', script], {
      env: { ...variables, ...more, PATH: `${tools!.directory}:${process.env.PATH}` },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  execFileSync('chmod', ['0711', outside]);
  let weir: Weir = await startWeir({ DATA_DIR: dataDir });
  onTestFinished(async () => {
    await weir.stop();
    await rm(outside, { recursive: true });
  });
  const restart = async (between = () => {}) => {
    await weir.forget();
    weir.signal('SIGTERM');
    await weir.ended;
    between();
    weir = await startWeir({ DATA_DIR: dataDir });
  };
  const accepted = new Map<string, string>();
  const webhook = await weir.addWebhook();
  const send = async (count: number, during = () => {}) => {
    const sender = startSender({ port: weir.port, ...webhook });
    await sender.acceptMore(count);
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
  const [{ now }] = (await weir.database.query<{ now: string }>({ text: 'select clock_timestamp()::text as now' })) as [
    { now: string },
  ];
  // The mistake. Its commit is behind the given time.
  await weir.database.query({ text: 'delete from events' });
  await until(async () => (await readdir(variables.ARCHIVE)).length > 0, { timeoutMs: PATIENCE_MS });

  await restart(() => run(recover!, { RECOVER_TO: now }));
  expect(await missing(weir.database, accepted)).toEqual([]);
  const stored = await weir.database.query({ text: 'select from events' });
  expect(stored).toHaveLength(accepted.size);
  await send(50);
  expect(await missing(weir.database, accepted)).toEqual([]);
});
