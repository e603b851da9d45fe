/**
 * Scenario `persist`: three ways to commit the same rows over one connection, fsync on, with the same number of rows per
 * commit: binary COPY (Weir's way), one INSERT .. SELECT FROM unnest, and an INSERT for each row inside one transaction.
 */

import pg from 'pg';
import { emptyTable } from '../server/operate/load/environment.ts';
import { CopyConnection } from '../server/store/copy/connection.ts';
import type { EventRow } from '../server/store/copy/rows.ts';
import { uuidText } from '../server/store/ids.ts';
import { openBenchDatabase, pgOptions, settledRows } from './lib/database.ts';
import { ADDRESS, type Commit, copyCommit, randomRows, withNewIds } from './lib/event-rows.ts';
import type { BenchContext, Outcome, Scenario } from './lib/outcome.ts';
import { formatSpread, ratioByRound } from './lib/stats.ts';

const BATCH_ROWS = [1, 10, 100, 500, 2000];
const BODY_BYTES = 1024;
const COLUMNS = 'id, webhook_id, received_at, source_ip, headers, content_type, event_type, body, bytes';

export const persist: Scenario = {
  name: 'persist',
  summary: 'rows committed a second (fsync on, one connection, 1 KiB bodies): COPY, unnest, INSERT a row',
  defaults: { rounds: 5, seconds: 1 },
  run,
};

interface Way {
  name: string;
  commit: Commit;
}

interface Cell {
  way: string;
  batchRows: number;
  rowsPerSecond: number[];
}

const COPY = 'binary COPY';
const UNNEST = 'INSERT .. SELECT FROM unnest';
const INSERTS = 'INSERT a row, one transaction';

async function run(context: BenchContext): Promise<Outcome> {
  const { conninfo, database } = await openBenchDatabase(context);
  const copying = await CopyConnection.connect(conninfo, () => {});
  context.undo(() => copying.close());
  const client = new pg.Client(pgOptions(conninfo));
  await client.connect();
  context.undo(() => client.end());
  const ways: Way[] = [
    { name: COPY, commit: copyCommit(copying) },
    { name: UNNEST, commit: (rows) => unnest(client, rows) },
    { name: INSERTS, commit: (rows) => inserts(client, rows) },
  ];

  const template = randomRows(Math.max(...BATCH_ROWS), BODY_BYTES);
  const cells: Cell[] = BATCH_ROWS.flatMap((batchRows) =>
    ways.map(({ name }) => ({ way: name, batchRows, rowsPerSecond: [] })),
  );
  const faults: string[] = [];
  for (let round = 0; round <= context.rounds; round++) {
    for (const { way, batchRows, rowsPerSecond } of cells) {
      context.signal.throwIfAborted();
      await emptyTable(database, 'events');
      const { commit } = ways.find(({ name }) => name === way)!;
      const { rows, seconds } = await commitFor(context.seconds, commit, template.slice(0, batchRows));
      const stored = await settledRows(database, 'events');
      if (stored !== rows) faults.push(`${way}: ${stored} rows for ${rows} that were committed`);
      // The first round is a warm-up: query plans, code, and files of the write-ahead log.
      if (round > 0) rowsPerSecond.push(rows / seconds);
    }
    context.say(round === 0 ? 'warmed up' : `round ${round} of ${context.rounds} done`);
  }
  return summarise(cells, faults);
}

async function commitFor(seconds: number, commit: Commit, template: readonly EventRow[]) {
  const startMs = performance.now();
  let rows = 0;
  do {
    await commit(withNewIds(template));
    rows += template.length;
  } while (performance.now() - startMs < seconds * 1000);
  return { rows, seconds: (performance.now() - startMs) / 1000 };
}

async function unnest(client: pg.Client, rows: readonly EventRow[]): Promise<void> {
  const values = rows.map(columnsOf);
  await client.query({
    name: 'unnest',
    text: `insert into events (${COLUMNS}) select * from unnest(
      $1::uuid[], $2::uuid[], $3::timestamptz[], $4::inet[], $5::bytea[], $6::text[], $7::text[], $8::bytea[], $9::int[])`,
    values: Array.from({ length: 9 }, (_, column) => values.map((row) => row[column])),
  });
}

async function inserts(client: pg.Client, rows: readonly EventRow[]): Promise<void> {
  const text = `insert into events (${COLUMNS}) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`;
  const alone = rows.length === 1;
  if (!alone) await client.query('begin');
  for (const row of rows) await client.query({ name: 'insert', text, values: columnsOf(row) });
  if (!alone) await client.query('commit');
}

/** The row as values for node-postgres. */
function columnsOf(row: EventRow): unknown[] {
  const { id, webhookId, receivedAtMs, headers, contentType, eventType, body } = row;
  return [
    uuidText(id),
    uuidText(webhookId),
    new Date(receivedAtMs),
    ADDRESS,
    headers,
    contentType,
    eventType,
    body,
    body.length,
  ];
}

function summarise(cells: readonly Cell[], faults: string[]): Outcome {
  const find = (way: string, batchRows: number) =>
    cells.find((cell) => cell.way === way && cell.batchRows === batchRows)!.rowsPerSecond;
  const ways = [COPY, UNNEST, INSERTS];
  const named = (way: string, batchRows: number) => `${way}, ${batchRows} a commit`;
  return {
    tables: [
      {
        header: ['rows a commit', ...ways.map((way) => `${way}, rows/s`)],
        rows: BATCH_ROWS.map((batchRows) => [
          String(batchRows),
          ...ways.map((way) => formatSpread(find(way, batchRows))),
        ]),
      },
    ],
    measures: cells.map(({ way, batchRows, rowsPerSecond }) => ({
      name: named(way, batchRows),
      unit: 'rows/s',
      values: rowsPerSecond,
    })),
    ratios: BATCH_ROWS.flatMap((batchRows) =>
      [UNNEST, INSERTS].map((way) => ({
        of: named(COPY, batchRows),
        to: named(way, batchRows),
        values: ratioByRound(find(COPY, batchRows), find(way, batchRows)),
      })),
    ),
    goals: [],
    notes: [
      'COPY goes through libpq with the encoder of the server, the others through node-postgres with a prepared statement; encoding is in the time of all three.',
      'The table is emptied and a checkpoint made before each window.',
    ],
    faults,
  };
}
