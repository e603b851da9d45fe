/** The command line of the benches: `npm run bench [scenario...] [--seconds N] [--rounds N]`. */
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { CommandError, watchOutputs } from '../server/base/command/io.ts';
import { UndoStack } from '../server/operate/primary/undo.ts';
import { describeMachine, loadOfLastMinute } from './lib/machine.ts';
import type { Outcome, Scenario } from './lib/outcome.ts';
import { resultsDirectory } from './lib/paths.ts';
import { keepRecord, recordOf, renderReport } from './lib/report.ts';
import { scenarios } from './scenarios.ts';

interface Options {
  list?: boolean;
  seconds?: number;
  rounds?: number;
  events?: number;
  keep: boolean;
}

const BUSY_LOAD = 0.5;
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
    .option('--events <events>', 'events stored before the measurement (filled)', wholePositive)
    .option('--no-keep', 'do not add a line to bench/results')
    .exitOverride()
    .action(async (names: string[], options: Options) => {
      if (options.list)
        return void process.stdout.write(
          scenarios.map(({ name, summary }) => `${name.padEnd(12)}${summary}\n`).join(''),
        );
      for (const scenario of chosen(names))
        exitCode = Math.max(exitCode, await measure(scenario, options, interrupt.signal));
    });
  try {
    await program.parseAsync();
    return exitCode;
  } catch (error) {
    if (interrupt.signal.aborted) return INTERRUPTED;
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (!(error instanceof CommandError)) throw error;
    process.stderr.write(`bench: ${error.message}\n`);
    return 1;
  }
}

function chosen(names: readonly string[]): readonly Scenario[] {
  if (names.length === 0) return scenarios;
  return names.map((name) => {
    const scenario = scenarios.find((each) => each.name === name);
    if (scenario === undefined)
      throw new CommandError(
        `there is no scenario ${name}; there are: ${scenarios.map((each) => each.name).join(', ')}`,
      );
    return scenario;
  });
}

/** Runs one scenario, cleans up in every case, and reports. Resolves with the exit code. */
async function measure(scenario: Scenario, options: Options, signal: AbortSignal): Promise<number> {
  const { rounds = scenario.defaults.rounds, seconds = scenario.defaults.seconds, events } = options;
  const machine = describeMachine();
  const conditions = { rounds, at: new Date(), load: loadOfLastMinute() };
  const say = (line: string) => void process.stderr.write(`  ${line}\n`);
  process.stderr.write(`${scenario.name}: ${rounds} rounds of ${seconds} s a window\n`);
  if (conditions.load > BUSY_LOAD) say('the machine has other load: trust ratios, not absolute figures');

  const undo = new UndoStack();
  let outcome: Outcome;
  try {
    outcome = await scenario.run({ rounds, seconds, events, signal, say, undo: (step) => undo.push(step) });
  } finally {
    await undo.run();
  }
  process.stdout.write(`\n${renderReport(scenario, outcome, machine, conditions)}\n`);
  if (options.keep) keepRecord(resultsDirectory, scenario, recordOf(scenario, outcome, machine, conditions));
  return outcome.faults.length > 0 ? 1 : 0;
}

watchOutputs(process, () => (process.exitCode = 1));
process.exitCode = await main();
