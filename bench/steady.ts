/**
 * Scenario `steady`: latency without a queue. One request at a time beside one fsync of the same disk, and a constant rate (open loop:
 * a request starts when it is due, whether or not earlier ones are answered) beside the bare answer.
 *
 *     each round:  fsync | Weir, one at a time | Weir, constant rate | bare, constant rate
 */
import { randomBytes } from 'node:crypto';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { benchBody, emptyTable, signedRequest } from '../server/operate/load/environment.ts';
import { BARE, startBare } from './lib/contestants.ts';
import type { BenchContext, Outcome, Scenario } from './lib/outcome.ts';
import { sendPaced } from './lib/pace.ts';
import { formatNumber, formatSpread, percentile, ratioByRound, spreadOf } from './lib/stats.ts';
import { openWeir } from './lib/weir.ts';
import { requireWrk, runWrk, writeScript } from './lib/wrk.ts';

const BODY_BYTES = 1024;
const PER_SECOND = 1_500;
const FSYNCS = 200;
/** A page of the write-ahead log. */
const PAGE = randomBytes(8_192);
const WARM_UP_SECONDS = 2;
const OVER_FSYNC_MS_MAX = 0.8;
const TIMES_BARE_MAX = 2;
const FSYNC = 'fsync of 8 KiB';
const ALONE = 'Weir, one at a time';
const WEIR_PACED = `Weir, ${PER_SECOND}/s`;
const BARE_PACED = `${BARE}, ${PER_SECOND}/s`;

export const steady: Scenario = {
  name: 'steady',
  summary: `latency of one request at a time beside one fsync, and at a constant ${PER_SECOND}/s beside the bare answer`,
  defaults: { rounds: 7, seconds: 4 },
  run,
};

interface Series {
  name: string;
  p50Ms: number[];
  p99Ms: number[];
  measure: () => Promise<{ p50Ms: number; p99Ms: number }>;
}

async function run(context: BenchContext): Promise<Outcome> {
  requireWrk();
  const { database, directory, secret, weir } = await openWeir(context);
  const bare = await startBare(context, directory);
  const signed = signedRequest(secret, benchBody(BODY_BYTES));
  const script = join(directory, 'request.lua');
  writeScript(script, signed);
  const paced = async (url: string) => {
    const order = { ...signed, url, perSecond: PER_SECOND };
    await sendPaced({ ...order, seconds: WARM_UP_SECONDS }, context.signal);
    const sent = await sendPaced({ ...order, seconds: context.seconds }, context.signal);
    return percentiles(sent.map(({ dueMs, answeredMs }) => answeredMs - dueMs));
  };
  const alone = async () => {
    const order = { url: weir.url, script, connections: 1 };
    await runWrk({ ...order, seconds: WARM_UP_SECONDS }, context.signal);
    return runWrk({ ...order, seconds: context.seconds }, context.signal);
  };
  const series = (name: string, measure: Series['measure']): Series => ({ name, measure, p50Ms: [], p99Ms: [] });
  const all = [
    series(FSYNC, async () => percentiles(await fsyncMs(join(directory, 'fsync')))),
    series(ALONE, alone),
    series(WEIR_PACED, () => paced(weir.url)),
    series(BARE_PACED, () => paced(bare.url)),
  ];
  for (let round = 1; round <= context.rounds; round++)
    for (const one of all) {
      await emptyTable(database, 'events');
      const { p50Ms, p99Ms } = await one.measure();
      one.p50Ms.push(p50Ms);
      one.p99Ms.push(p99Ms);
      context.say(
        `round ${round} of ${context.rounds}: ${one.name}: p50 ${formatNumber(p50Ms)} ms, p99 ${formatNumber(p99Ms)} ms`,
      );
    }
  return summarise(all);
}

function percentiles(values: readonly number[]): { p50Ms: number; p99Ms: number } {
  return { p50Ms: percentile(values, 0.5), p99Ms: percentile(values, 0.99) };
}

/** Durations of one write and its fdatasync, as Postgres does at a commit: the file exists at its full size. */
async function fsyncMs(path: string): Promise<number[]> {
  const file = await open(path, 'w');
  try {
    for (let page = 0; page < FSYNCS; page++) await file.write(PAGE);
    await file.sync();
    const times: number[] = [];
    for (let page = 0; page < FSYNCS; page++) {
      const startMs = performance.now();
      await file.write(PAGE, 0, PAGE.length, page * PAGE.length);
      await file.datasync();
      times.push(performance.now() - startMs);
    }
    return times;
  } finally {
    await file.close();
    await rm(path);
  }
}

function summarise(all: readonly Series[]): Outcome {
  const [fsync, alone, weir, bare] = all as [Series, Series, Series, Series];
  const overFsync = alone.p50Ms.map((ms, round) => ms - fsync.p50Ms[round]!);
  const times = ratioByRound(weir.p99Ms, bare.p99Ms);
  return {
    tables: [
      {
        header: ['', 'p50 ms', 'p99 ms'],
        rows: all.map(({ name, p50Ms, p99Ms }) => [name, formatSpread(p50Ms), formatSpread(p99Ms)]),
      },
    ],
    measures: [
      ...all.flatMap(({ name, p50Ms, p99Ms }) => [
        { name: `${name}: p50`, unit: 'ms', values: p50Ms },
        { name: `${name}: p99`, unit: 'ms', values: p99Ms },
      ]),
      { name: `${ALONE}: p50 over the fsync`, unit: 'ms', values: overFsync },
    ],
    ratios: [
      { of: `${WEIR_PACED}, p50`, to: BARE_PACED, values: ratioByRound(weir.p50Ms, bare.p50Ms) },
      { of: `${WEIR_PACED}, p99`, to: BARE_PACED, values: times },
    ],
    goals: [
      {
        what: 'p50 of one request at a time over one fsync:',
        value: spreadOf(overFsync).median,
        unit: 'ms',
        below: OVER_FSYNC_MS_MAX,
      },
      {
        what: `p99 at ${PER_SECOND}/s over that of the bare answer:`,
        value: spreadOf(times).median,
        unit: '',
        below: TIMES_BARE_MAX,
      },
    ],
    notes: [
      'Weir with 1 process. Load generator, Weir and Postgres share the cores.',
      'Constant rate: node:http in the bench process, measured from the time at which a request was due, so that a late sender raises both contestants.',
    ],
    faults: all
      .filter(({ p99Ms }) => p99Ms.some((ms) => !(ms > 0)))
      .map(({ name }) => `${name}: there was no response`),
  };
}
