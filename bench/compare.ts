/**
 * `npm run bench -- compare A..B SCENARIO`: runs a scenario of two commits in turns, and judges whether B is slower than A.
 *
 *     each commit: a work tree in a temporary directory, with the node_modules of this one, is built
 *     each round:  one round of A, one of B; every second round B goes first
 *
 * Each commit runs its own bench, so the scenario must exist in both and have the same names of measures.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CommandError } from '../server/base/command/io.ts';
import { BARE, LEAST } from './lib/contestants.ts';
import type { BenchContext } from './lib/outcome.ts';
import { projectRoot } from './lib/paths.ts';
import { renderTable } from './lib/report.ts';
import { formatNumber, formatSpread, ratioByRound, spreadOf } from './lib/stats.ts';

/** Median and unit of each measure of one round. */
type Round = Map<string, { value: number; unit: string }>;

interface Comparison {
  name: string;
  unit: string;
  a: number[];
  b: number[];
  verdict: 'slower' | 'faster' | 'same';
}

/** The spread of fewer rounds says little about the noise. */
const ROUNDS_MIN = 4;
/** A change below this share is not reported, however small the spread is. */
const CHANGE_MIN = 0.02;
/** Units of which more is better, and units of which less is better. Measures with other units are counts, and not compared. */
const more = /\/s$/;
const less = /^(ms|us|ns|MB|KiB|s)$/;

/** Resolves with true when B is slower than A by more than the noise. */
export async function compare(range: string, scenario: string, context: BenchContext): Promise<boolean> {
  const [a, b = ''] = range.split('..');
  if (!range.includes('..') || !a)
    throw new CommandError(`${range} is not a range of two commits, such as main~5..main`, 2);
  if (context.rounds < ROUNDS_MIN) throw new CommandError(`at least ${ROUNDS_MIN} rounds are needed`, 2);
  const builds = [await buildCommit(a, context), await buildCommit(b || 'HEAD', context)];
  const rounds: [Round[], Round[]] = [[], []];
  for (let round = 0; round < context.rounds; round++) {
    for (const side of round % 2 === 0 ? [0, 1] : [1, 0]) {
      context.say(`round ${round + 1} of ${context.rounds}: ${side === 0 ? a : b || 'HEAD'}`);
      rounds[side]!.push(await runOnce(builds[side]!, scenario, context));
    }
  }
  const compared = comparisonsOf(...rounds);
  if (compared.length === 0) throw new CommandError(`the commits have no measure of ${scenario} in common`);
  process.stdout.write(`\n${renderComparison(range, scenario, compared, context.rounds)}\n`);
  return compared.some(({ verdict }) => verdict === 'slower');
}

async function buildCommit(commit: string, { say, undo, signal }: BenchContext): Promise<string> {
  const git = (...args: string[]) => promisify(execFile)('git', ['-C', projectRoot, ...args]);
  const known = await git('rev-parse', '--verify', `${commit}^{commit}`).catch(() => null);
  if (known === null) throw new CommandError(`${commit} is not a commit of this repository`, 2);
  const directory = await mkdtemp(join(tmpdir(), 'weir-compare-'));
  undo(async () => {
    await git('worktree', 'remove', '--force', directory).catch(() => rm(directory, { recursive: true, force: true }));
  });
  say(`building ${commit}`);
  await git('worktree', 'add', '--detach', '--force', directory, known.stdout.trim());
  await symlink(join(projectRoot, 'node_modules'), join(directory, 'node_modules'));
  await promisify(execFile)('npm', ['run', 'build'], { cwd: directory, signal });
  return directory;
}

/** One round of a build. Its bench writes the figures to its own bench/results. */
async function runOnce(directory: string, scenario: string, { seconds, signal }: BenchContext): Promise<Round> {
  const args = ['dist/bench/run.js', scenario, '--rounds', '1', ...(seconds > 0 ? ['--seconds', String(seconds)] : [])];
  const run = promisify(execFile)(process.execPath, args, { cwd: directory, signal, maxBuffer: 2 ** 26 });
  await run.catch((failure: { stderr?: string }) => {
    throw new CommandError(`${scenario} failed:\n${failure.stderr?.trim() || String(failure)}`);
  });
  const lines = (await readFile(join(directory, `bench/results/${scenario}.jsonl`), 'utf8')).trim().split('\n');
  const { results } = JSON.parse(lines.at(-1)!) as { results: { name: string; median: number; unit: string }[] };
  return new Map(results.map(({ name, median, unit }) => [name, { value: median, unit }]));
}

/** What both sides measured in every round, without contestants that are not of the commit. */
export function comparisonsOf(a: readonly Round[], b: readonly Round[]): Comparison[] {
  const names = [...a[0]!.keys()].filter((name) => [...a, ...b].every((round) => (round.get(name)?.value ?? 0) > 0));
  return names.flatMap((name) => {
    const { unit } = a[0]!.get(name)!;
    if ([BARE, LEAST].some((other) => name.startsWith(other)) || !(more.test(unit) || less.test(unit))) return [];
    const values = (rounds: readonly Round[]) => rounds.map((round) => round.get(name)!.value);
    return { name, unit, a: values(a), b: values(b), verdict: verdictOf(values(a), values(b), more.test(unit)) };
  });
}

/** The median of the ratios by round must differ from 1 by more than the ratios differ from each other. */
function verdictOf(a: readonly number[], b: readonly number[], moreIsBetter: boolean): Comparison['verdict'] {
  const { median, low, high } = spreadOf(ratioByRound(b, a));
  if (Math.abs(median - 1) <= Math.max(CHANGE_MIN, high - low)) return 'same';
  return median > 1 === moreIsBetter ? 'faster' : 'slower';
}

function renderComparison(range: string, scenario: string, compared: readonly Comparison[], rounds: number): string {
  const slower = compared.filter(({ verdict }) => verdict === 'slower').length;
  return [
    `## ${scenario}, ${range}: ${rounds} rounds in turns`,
    renderTable({
      header: ['measure', 'before', 'after', 'times', 'verdict'],
      rows: compared.map(({ name, unit, a, b, verdict }) => [
        name,
        `${formatNumber(spreadOf(a).median)} ${unit}`,
        `${formatNumber(spreadOf(b).median)} ${unit}`,
        formatSpread(ratioByRound(b, a)),
        verdict,
      ]),
    }),
    slower === 0
      ? 'No measure is slower by more than its noise.'
      : `${slower} of ${compared.length} measures are slower by more than their noise.`,
  ].join('\n\n');
}
