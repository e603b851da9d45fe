/** `weir bench`: measures the scaling curve of this machine on a temporary Weir. */
import { writeFile } from 'node:fs/promises';
import { availableParallelism, loadavg } from 'node:os';
import { resolve } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { CommandError, type CommandIo, printJson, printText } from '../../base/command/io.ts';
import { settingTable } from '../../base/settings/table.ts';
import { isInMemory } from '../../operate/load/environment.ts';
import type { Run } from '../../operate/load/run.ts';
import { WARM_UP_SECONDS } from '../../operate/load/window.ts';
import { wholeNumber } from '../command/arguments.ts';
import { showBenchProgress } from '../command/progress.ts';
import { untilSignal } from '../command/signals.ts';
import { type CurveOrder, measureCurve } from './curve.ts';
import { describeReport, drawReport, reportOf } from './report.ts';

interface BenchOptions {
  workers: number[];
  seconds: number;
  size: number;
  connections: number;
  senders: number;
  svg?: string;
  json?: true;
}

/** The smallest JSON body of the load does not fit below this size. */
const BODY_BYTES_MIN = 32;

/** Exit code 1 when a request was not answered 202, when the stored rows differ from these answers, or when a signal ended the run early. */
export function define(command: Command, io: CommandIo): void {
  const cores = availableParallelism();
  command
    .addOption(
      new Option('--workers <list>', 'process counts to measure, e.g. 1,2,4')
        .argParser(parseWorkers)
        .default(doublings(cores), doublings(cores).join()),
    )
    .option('--seconds <n>', 'length of each measurement', wholeNumber(3_600), 10)
    .option(
      '--size <bytes>',
      'body size of a request',
      wholeNumber(Number(settingTable.WEBHOOK_MAX_PAYLOAD_BYTES.fallback), BODY_BYTES_MIN),
      1024,
    )
    .option('--connections <n>', 'concurrent requests', wholeNumber(10_000), 256)
    .option('--senders <n>', 'sender threads', wholeNumber(64), Math.ceil(cores / 4))
    .option('--svg <file>', 'also draw the curve as an SVG file')
    .option('--json', 'print one JSON document')
    .action((options: BenchOptions) => bench(options, cores, io));
}

async function bench({ size, svg, json, ...given }: BenchOptions, cores: number, io: CommandIo): Promise<void> {
  const order: CurveOrder = { ...given, senders: Math.min(given.senders, given.connections), bodyBytes: size };
  const machine = { cores, load_before: Number(loadavg()[0]!.toFixed(2)), in_memory: await isInMemory() };
  const runs: Run[] = [];
  const progress = showBenchProgress(order.workers.length, WARM_UP_SECONDS + order.seconds, io.stderr);
  const isStopped = await untilSignal(async (stop) => {
    await measureCurve(order, io, progress, stop, (run) => runs.push(run)).catch((error) => {
      if (!stop.aborted) throw error;
    });
    return stop.aborted;
  }).finally(progress.stop);
  const report = reportOf(order, runs, machine);
  if (json) printJson(io, report);
  else if (runs.length > 0) printText(io, describeReport(report));
  if (svg !== undefined && runs.length > 0) await writeFile(resolve(io.directory, svg), drawReport(report));
  if (isStopped)
    throw new CommandError(
      `Stopped after ${runs.length} of ${order.workers.length} measurements; their temporary files are deleted.`,
    );
  if (report.faults.length > 0)
    throw new CommandError(
      'These figures are invalid: a request was not answered 202, or the number of stored events differs.',
    );
}

function doublings(cores: number): number[] {
  const below = Array.from({ length: Math.ceil(Math.log2(cores)) }, (_, power) => 2 ** power);
  return [...below, cores];
}

function parseWorkers(given: string): number[] {
  const parse = wholeNumber(256);
  const list = given.split(',').map((each) => parse(each.trim()));
  if (new Set(list).size === list.length) return list;
  throw new InvalidArgumentError('Give each number once, e.g. 1,2,4.');
}
