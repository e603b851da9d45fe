/**
 * Scenario `filled`: ingest into a table that holds millions of events, compared with an empty one.
 *
 *     each round:  empty | filled     a Weir with 1 process on a database of its own for each
 *     each turn:   warm-up, rows settle, (empty: truncate,) checkpoint, measured window
 *
 * All stored events are of today, the worst case: inserts go into the one partition and the one index that hold them. They are copied
 * with the server's encoder, which takes a quarter of an hour for 20 million on two cores, and need 1.6 KB of disk each.
 */
import { randomBytes } from 'node:crypto';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { CommandError } from '../server/base/command/io.ts';
import { benchBody, signedRequest } from '../server/operate/load/environment.ts';
import { CopyConnection } from '../server/store/copy/connection.ts';
import { type BenchDatabase, openBenchDatabase } from './lib/database.ts';
import { copyCommit, randomRows, withNewIds } from './lib/event-rows.ts';
import type { BenchContext, Outcome, Ratio, Scenario } from './lib/outcome.ts';
import { formatNumber, formatSpread, ratioByRound, spreadOf } from './lib/stats.ts';
import { startWeir } from './lib/weir.ts';
import { faultsOf, measureWindow, totalUs, type Window } from './lib/window.ts';
import { requireWrk, writeScript } from './lib/wrk.ts';

const BODY_BYTES = 1024;
const CONNECTIONS = 256;
const EVENTS = 1_000_000;
const COPY_ROWS = 2_000;
/** Connections that fill at the same time. */
const FILLING = 2;
const SAY_EVERY_EVENTS = 500_000;
/** On disk with index and write-ahead log, with a margin. */
const EVENT_DISK_BYTES = 2_000;
const EMPTY = 'empty table';

export const filled: Scenario = {
  name: 'filled',
  summary: 'receiving into a table with 1,000,000 events (--events N), beside an empty one',
  defaults: { rounds: 7, seconds: 4 },
  run,
};

interface Series {
  name: string;
  empties: boolean;
  bench: BenchDatabase;
  url: string;
  processes: readonly number[];
  script: string;
  windows: Window[];
}

async function run(context: BenchContext): Promise<Outcome> {
  requireWrk();
  const { events = EVENTS } = context;
  const full = `${events.toLocaleString('en-GB')} events`;
  const all: Series[] = [];
  for (const name of [EMPTY, full]) {
    const bench = await openBenchDatabase(context);
    if (name === full) await fill(bench, events, context);
    const secret = randomBytes(24).toString('base64url');
    const script = join(bench.directory, 'request.lua');
    writeScript(script, signedRequest(secret, benchBody(BODY_BYTES)));
    const { url, processes, stop } = await startWeir({ ...bench, processes: 1, secret });
    context.undo(stop);
    all.push({ name, empties: name === EMPTY, bench, url, processes, script, windows: [] });
  }

  for (let round = 1; round <= context.rounds; round++)
    for (const { name, bench, windows, ...order } of all) {
      const window = await measureWindow(context, bench.database, {
        ...order,
        table: 'events',
        connections: CONNECTIONS,
      });
      windows.push(window);
      context.say(
        `round ${round} of ${context.rounds}: ${name}: ${formatNumber(window.requestsPerSecond)} requests/s, ` +
          `${formatNumber(totalUs(window))} us, of which Postgres ${formatNumber(window.us.postgres)}`,
      );
    }
  return summarise(all);
}

/** Stores the events of today. Rejects with CommandError when the disk has no room for them. */
async function fill({ conninfo, directory }: BenchDatabase, events: number, context: BenchContext): Promise<void> {
  const { bavail, bsize } = await statfs(directory);
  if (bavail * bsize < events * EVENT_DISK_BYTES)
    throw new CommandError(
      `${events} events need ${formatNumber((events * EVENT_DISK_BYTES) / 1e9)} GB in ${directory}`,
    );
  const template = randomRows(COPY_ROWS, BODY_BYTES);
  let started = 0;
  await Promise.all(
    Array.from({ length: FILLING }, async () => {
      const connection = await CopyConnection.connect(conninfo, () => {});
      try {
        const commit = copyCommit(connection);
        while (started < events) {
          context.signal.throwIfAborted();
          const count = Math.min(COPY_ROWS, events - started);
          started += count;
          if (started % SAY_EVERY_EVENTS === 0)
            context.say(`${formatNumber(started)} of ${formatNumber(events)} stored`);
          await commit(withNewIds(template.slice(0, count)));
        }
      } finally {
        connection.close();
      }
    }),
  );
}

function summarise(all: readonly Series[]): Outcome {
  const [empty, full] = all as [Series, Series];
  const columns: readonly { name: string; unit: string; value: (window: Window) => number }[] = [
    { name: 'rate', unit: 'requests/s', value: ({ requestsPerSecond }) => requestsPerSecond },
    { name: 'p99', unit: 'ms', value: ({ p99Ms }) => p99Ms },
    { name: 'Postgres', unit: 'us', value: ({ us }) => us.postgres },
    { name: 'CPU', unit: 'us', value: totalUs },
  ];
  const ratios = columns.map(
    ({ name, value }): Ratio => ({
      of: `${full.name}, ${name}`,
      to: empty.name,
      values: ratioByRound(full.windows.map(value), empty.windows.map(value)),
    }),
  );
  return {
    tables: [
      {
        header: [`${CONNECTIONS} connections`, ...columns.map(({ name, unit }) => `${name}, ${unit}`)],
        rows: all.map(({ name, windows }) => [name, ...columns.map(({ value }) => formatSpread(windows.map(value)))]),
      },
    ],
    measures: all.flatMap((series) =>
      columns.map(({ name, unit, value }) => ({
        name: `${series.name}: ${name}`,
        unit,
        values: series.windows.map(value),
      })),
    ),
    ratios,
    goals: [
      {
        what: `requests/s, ${full.name} over ${empty.name}:`,
        value: spreadOf(ratios[0]!.values).median,
        unit: '',
        atLeast: 0.9,
      },
    ],
    notes: [
      'Two Weirs with 1 process, each on its own Postgres. Load generator (wrk, one thread, closed loop), Weir and Postgres share the cores.',
      'CPU is the processor time of Weir and Postgres for an event.',
    ],
    faults: all.flatMap(({ name, windows }) => windows.flatMap((window) => faultsOf(name, window))),
  };
}
