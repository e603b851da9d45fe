/** `weir bench` as an operator runs it: a real Weir, a real database, real load, and nothing left behind. */
import { readdir, readFile, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { define as defineBench } from '../../../server/cli/bench/bench.ts';
import { processesOf, type Seen } from '../../helpers/processes.ts';
import { until } from '../../helpers/wait.ts';
import { makeDataDir, spawnWeir } from '../../helpers/weir.ts';
import { startCommand } from '../command.ts';

/** Settings of the operator, which would stop any program that reads them. */
const foreign = { DATABASE_URL_FILE: '/nowhere/url', PORT: 'none', WORKERS: 'none', RATE_LIMIT_INGEST_MAX: 1 };

/** Spawns `weir bench` with a separate temporary directory. */
async function startBench(...args: string[]) {
  const folder = await makeDataDir();
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const bench = spawnWeir({ ...foreign, TMPDIR: folder }, { command: ['bench', ...args] });
  onTestFinished(() => void bench.child.kill('SIGTERM'));
  return { ...bench, folder };
}

/** The location of its database, and its processes, once one of them serves. */
async function seenServing(folder: string) {
  return until(async () => {
    const [name] = await readdir(folder);
    if (name === undefined) return null;
    const dataDir = join(folder, name);
    const processes = await processesOf(dataDir);
    return processes.some(isServing) ? { dataDir, processes } : null;
  });
}

function isServing({ command }: Seen): boolean {
  return command.endsWith('/server/main.js');
}

/** Number of open connections of a process, including those to its parent and to Postgres. */
async function socketsOf(pid: number): Promise<number> {
  const folder = `/proc/${pid}/fd`;
  const targets = await Promise.all(
    (await readdir(folder)).map((name) => readlink(join(folder, name)).catch(() => '')),
  );
  return targets.filter((target) => target.startsWith('socket:')).length;
}

test('every 202 is stored, and nothing is left behind', async () => {
  const svg = join(tmpdir(), `weir-curve-${process.pid}.svg`);
  onTestFinished(() => rm(svg, { force: true }));
  const bench = await startBench(...'--workers 1 --seconds 1 --size 256 --connections 8 --json --svg'.split(' '), svg);
  const { dataDir } = await seenServing(bench.folder);
  expect(await bench.ended, bench.stderr()).toBe(0);

  const report = JSON.parse(bench.lines.join('\n'));
  expect(await readFile(svg, 'utf8')).toMatch(/^<svg .*<\/svg>\n$/s);
  const { accepted } = report.runs[0];
  expect(accepted).toBeGreaterThan(0);
  expect(report).toMatchObject({ seconds: 1, body_bytes: 256, connections: 8, faults: [] });
  expect(report.runs).toMatchObject([
    { workers: 1, times_first: 1, statuses: { 202: accepted }, errors: {}, stored: accepted },
  ]);
  expect(report.runs[0].process_memory_mb).toBeGreaterThan(20);
  // Each part has processor time: the event loop more than a microsecond, and the signature threads, which are found by their name.
  const { event_loop, signatures, postgres } = report.runs[0].cpu_us;
  for (const us of [event_loop, signatures, postgres]) expect(us).toBeGreaterThan(1);
  expect(await readdir(bench.folder)).toEqual([]);
  expect(await processesOf(dataDir)).toEqual([]);
});

test('a process killed under load invalidates the figures, but no event answered 202 is lost', async () => {
  const bench = await startBench('--workers', '1', '--seconds', '2', '--connections', '64', '--json');
  const { processes } = await seenServing(bench.folder);
  const { pid } = processes.find(isServing)!;
  await until(async () => (await socketsOf(pid)) > 64);
  process.kill(pid, 'SIGKILL');

  expect(await bench.ended, bench.stderr()).toBe(1);
  expect(bench.stderr()).toContain('weir: These figures are invalid');
  const { runs, faults } = JSON.parse(bench.lines.join('\n'));
  expect(runs[0].stored).toBeGreaterThanOrEqual(runs[0].accepted);
  expect(faults).toContainEqual(expect.stringMatching(/^WORKERS=1: \d+ connections failed \(ECONN/));
  expect(await readdir(bench.folder)).toEqual([]);
});

test.each(['SIGINT', 'SIGTERM'] as const)(
  '%s during a run stops and removes everything that was started',
  async (signal) => {
    const bench = await startBench('--workers', '1,2', '--seconds', '600');
    const { dataDir, processes } = await seenServing(bench.folder);
    expect(processes.some(({ command }) => command.includes('postgres'))).toBe(true);

    bench.child.kill(signal);
    expect(await bench.ended).toBe(1);
    expect(bench.stderr()).toContain('weir: Stopped after 0 of 2 measurements; their temporary files are deleted.');
    expect(bench.lines).toEqual([]);
    expect(await readdir(bench.folder)).toEqual([]);
    expect(await processesOf(dataDir)).toEqual([]);
  },
);

test('Weir and its database end when the bench is killed; its files stay', async () => {
  const bench = await startBench('--workers', '1', '--seconds', '600');
  const { dataDir } = await seenServing(bench.folder);
  bench.child.kill('SIGKILL');
  await until(async () => (await processesOf(dataDir)).length === 0);
});

test.each([
  [['--workers', '0'], 'Give a whole number from 1 to 256.'],
  [['--workers', '1,,2'], 'Give a whole number from 1 to 256.'],
  [['--workers', '1,257'], 'Give a whole number from 1 to 256.'],
  [['--workers', '2,2'], 'Give each number once, e.g. 1,2,4.'],
  [['--seconds', '0'], 'Give a whole number from 1 to 3600.'],
  [['--seconds', '1.5'], 'Give a whole number from 1 to 3600.'],
  [['--size', '31'], 'Give a whole number from 32 to 1048576.'],
  [['--size', '1048577'], 'Give a whole number from 32 to 1048576.'],
  [['--connections', 'many'], 'Give a whole number from 1 to 10000.'],
  [['--senders', '65'], 'Give a whole number from 1 to 64.'],
])('%j is refused before the start', async (args, message) => {
  const { exitCode, message: refusal } = await startCommand(defineBench, args, { directory: '/' }).ended;
  expect([exitCode, refusal]).toEqual([2, expect.stringContaining(message)]);
});
