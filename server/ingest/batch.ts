/** POST /in/{webhook_id}/batch: stores each line of a verified body as an event, all in one commit. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EventRow } from '../db/copy-rows.ts';
import { uuidText } from '../db/ids.ts';
import type { Exchange } from '../http/exchange.ts';
import { Stage } from '../telemetry/stages.ts';
import { type DedupeOutcome, dedupeKey, dedupeValue } from './dedupe.ts';
import { type Line, type LinesOutcome, readLines } from './ndjson.ts';
import { refuseStore, type Store, type StoreParts } from './store.ts';

/** Content type of every line. The content type of the batch itself stays in the stored headers. */
const LINE_TYPE = 'application/json';
/** Stored header bytes of one batch: each event stores the headers of its request. Reachable only with both limits raised. */
const HEADER_BYTES_MAX = 33_554_432;

type Lines = Line<SharedArrayBuffer>[];

/** Creates the store of batch requests. @param linesMax BATCH_LINES_MAX */
export function storeBatch({ rows, writer, dedupeWriter, onStored }: StoreParts, linesMax: number): Store {
  return async (exchange, webhook, body) => {
    const outcome = await readInTurns(body, linesMax);
    if (outcome.kind !== 'lines') return refuseLines(exchange, outcome, linesMax);
    if (exchange.aborted) return;

    const { lines } = outcome;
    const bodies = lines.map(({ bytes }) => bytes);
    const events = rows.many(exchange, webhook, bodies, LINE_TYPE);
    if (events[0]!.headers.length * lines.length > HEADER_BYTES_MAX)
      return exchange.problem(
        'batch_too_large',
        'The headers are stored with each line, and are too long for this number of lines.',
      );

    const stored = await store(events, lines, dedupeValue(exchange, webhook));
    exchange.lap(Stage.commit);
    if (stored.kind !== 'stored') return refuseStore(exchange, stored);
    const accepted = events.filter(({ id }, i) => uuidText(id) === stored.eventIds[i]).length;
    if (accepted > 0) onStored(webhook, events[0]!.receivedAtMs);
    answer(exchange, accepted, stored.eventIds);
  };

  async function store(events: EventRow[], lines: Lines, value: string | null): Promise<DedupeOutcome> {
    if (value !== null)
      return dedupeWriter.addAll(events.map((row, i) => ({ ...row, key: dedupeKey(value, lines[i]!.number) })));
    const outcome = await writer.addAll(events);
    return outcome.kind === 'committed' ? { kind: 'stored', eventIds: events.map(({ id }) => uuidText(id)) } : outcome;
  }
}

/** Reads a large batch in slices and lets other requests run between them. */
async function readInTurns(
  body: Uint8Array<SharedArrayBuffer>,
  linesMax: number,
): Promise<LinesOutcome<SharedArrayBuffer>> {
  const reading = readLines(body, linesMax);
  for (;;) {
    const step = reading.next();
    if (step.done) return step.value;
    await nextTurn();
  }
}

function refuseLines(
  exchange: Exchange,
  outcome: Exclude<LinesOutcome<SharedArrayBuffer>, { kind: 'lines' }>,
  linesMax: number,
): void {
  if (outcome.kind === 'empty') return exchange.problem('batch_empty');
  if (outcome.kind === 'too_many')
    return exchange.problem(
      'batch_too_large',
      `The batch has more than ${linesMax} lines (BATCH_LINES_MAX); send it in parts.`,
    );
  exchange.problem('batch_invalid', undefined, { errors: outcome.faults });
}

/** Answers the ids in line order; a duplicate line has the id of the stored event. The status is 200 when all lines are duplicates. */
function answer(exchange: Exchange, accepted: number, eventIds: readonly string[]): void {
  exchange.eventId = eventIds[0]!;
  const repeated = eventIds.length - accepted;
  const told = repeated === 0 ? {} : { duplicates: repeated, ...(accepted === 0 ? { duplicate: true } : {}) };
  exchange.json(accepted === 0 ? 200 : 202, { accepted, ids: eventIds, ...told });
}
