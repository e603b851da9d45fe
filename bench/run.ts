/** The command line of the benches: `npm run bench [scenario...] [--seconds N] [--rounds N]`, and `npm run bench -- compare A..B SCENARIO`. */
import { loadavg } from 'node:os';
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { CommandError, watchOutputs } from '../server/base/command/io.ts';
import { UndoStack } from '../server/operate/primary/ending.ts';
import { breadth } from './breadth.ts';
import { cells } from './cells.ts';
import { churn } from './churn.ts';
import { compare } from './compare.ts';
import { drain } from './drain.ts';
import { functions } from './functions.ts';
import type { BenchContext, Scenario } from './lib/outcome.ts';
import { resultsDirectory } from './lib/paths.ts';
import { benchRecordOf, describeMachine, isMet, keepRecord, renderReport } from './lib/report.ts';
import { memory } from './memory.ts';
import { peers } from './peers.ts';
import { profile } from './profile.ts';
import { receive } from './receive.ts';
import { tail } from './tail.ts';
import { volume } from './volume.ts';

/** In the order in which they run by default. */
const scenarios = [receive, peers, tail, memory, drain, churn, cells, volume, breadth, functions, profile];

interface Options {
  list?: boolean;
  seconds?: number;
  rounds?: number;
  events?: number;
  keep: boolean;
  gate?: boolean;
}

/** Load average of a minute above which other programs compete for the cores. */
const BUSY_LOAD = 0.5;
const COMPARED_ROUNDS = 5;
/** Exit code after Ctrl-C, by shell convention. */
const INTERRUPTED = 130;

function positive(text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new InvalidArgumentError('a number above 0 is needed.');
  return value;
}

function wholePositive(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('a whole number of at least 1 is needed.');
  return Number(text);
}

async function main(): Promise<number> {
  const interrupt = new AbortController();
  // npm forwards the terminal's Ctrl-C a second time; the second one arrives during cleanup.
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => interrupt.abort());
  let exitCode = 0;
  const program = new Command('bench')
    .description('Measures Weir and alternatives to it, and prints the tables that the README quotes.')
    .argument('[scenario...]', 'scenarios to run; default: all')
    .option('--list', 'list the scenarios')
    .option('--seconds <seconds>', 'length of one measured window', positive)
    .option('--rounds <rounds>', 'windows of each contestant', wholePositive)
    .option('--events <events>', 'events stored before the measurement (volume, breadth)', wholePositive)
    .option('--no-keep', 'do not add a line to bench/results')
    .option('--gate', 'exit with 1 when a goal is missed')
    .exitOverride()
    .enablePositionalOptions()
    .action(async (names: string[], options: Options) => {
      const list = scenarios.map(({ name, summary }) => `${name.padEnd(12)}${summary}\n`);
      if (options.list) return void process.stdout.write(list.join(''));
      for (const scenario of chosen(names))
        exitCode = Math.max(exitCode, await measure(scenario, options, interrupt.signal));
    });
  program
    .command('compare <range> <scenario>')
    .description(
      'Builds two commits, A..B, runs a scenario of both in turns, and exits with 1 when B is slower by more than the noise.',
    )
    .option('--seconds <seconds>', 'length of one measured window', positive)
    .option('--rounds <rounds>', 'rounds of each commit', wholePositive, COMPARED_ROUNDS)
    .exitOverride()
    .action(async (range: string, scenario: string, { rounds = COMPARED_ROUNDS, seconds = 0 }: Partial<Options>) => {
      const slower = await withUndo((undo) =>
        compare(range, scenario, { rounds, seconds, signal: interrupt.signal, say, undo }),
      );
      exitCode = slower ? 1 : 0;
    });
  try {
    await program.parseAsync();
    return exitCode;
  } catch (error) {
    if (interrupt.signal.aborted) return INTERRUPTED;
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (!(error instanceof CommandError)) throw error;
    process.stderr.write(`bench: ${error.message}\n`);
    return error.exitCode;
  }
}

function chosen(names: readonly string[]): readonly Scenario[] {
  if (names.length === 0) return scenarios;
  return names.map((name) => {
    const scenario = scenarios.find((each) => each.name === name);
    if (scenario !== undefined) return scenario;
    throw new CommandError(`there is no scenario ${name}; there are: ${scenarios.map((each) => each.name).join(', ')}`);
  });
}

/** Runs one scenario, cleans up in every case, and reports. Resolves with the exit code. */
async function measure(scenario: Scenario, options: Options, signal: AbortSignal): Promise<number> {
  const { rounds = scenario.defaults.rounds, seconds = scenario.defaults.seconds, events } = options;
  const machine = describeMachine();
  const conditions = { rounds, at: new Date(), load: loadavg()[0]! };
  process.stderr.write(`${scenario.name}: ${rounds} rounds of ${seconds} s a window\n`);
  if (conditions.load > BUSY_LOAD) say('the machine has other load: trust ratios, not absolute figures');

  const outcome = await withUndo((undo) => scenario.run({ rounds, seconds, events, signal, say, undo }));
  process.stdout.write(`\n${renderReport(scenario, outcome, machine, conditions)}\n`);
  if (options.keep) keepRecord(resultsDirectory, scenario, benchRecordOf(scenario, outcome, machine, conditions));
  const { goals = [], faults = [] } = outcome;
  const missed = options.gate === true && !goals.every(isMet);
  return faults.length > 0 || missed ? 1 : 0;
}

function say(line: string): void {
  process.stderr.write(`  ${line}\n`);
}

/** Runs the steps that `work` registers, in reverse order, in every case. */
async function withUndo<T>(work: (undo: BenchContext['undo']) => Promise<T>): Promise<T> {
  const undo = new UndoStack();
  try {
    return await work((step) => undo.push(step));
  } finally {
    await undo.run();
  }
}

watchOutputs(process, () => (process.exitCode = 1));
process.exitCode = await main();
