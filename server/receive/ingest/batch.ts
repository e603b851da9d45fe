/** POST /in/{webhook_id}/batch: stores each line of a verified body as an event, all in one commit. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Exchange } from '../../base/http/exchange.ts';
import { jsonFault } from '../../base/http/json-text.ts';
import { problem } from '../../base/http/problem.ts';
import { Stage } from '../../base/telemetry/stages.ts';
import { uuidText } from '../../store/ids.ts';
import type { StoreOutcome } from './group-commit.ts';
import {
  dedupeKey,
  dedupeValue,
  noteEvent,
  refuseStore,
  type Store,
  type StoreParts,
  type VerifiedRequest,
} from './store.ts';

/** Content type of every line. The content type of the batch itself stays in the stored headers. */
const LINE_TYPE = 'application/json';
/** Stored header bytes of one batch: each event stores the headers of its request. The defaults of the settings stay below it. */
const STORED_HEADER_BYTES_MAX = 33_554_432;

/** Creates the store of batch requests. @param linesMax BATCH_LINES_MAX */
export function storeBatch({ rows, events, onStored }: StoreParts, linesMax: number): Store {
  const store = async ({ exchange, webhook, body }: VerifiedRequest) => {
    const outcome = await readInTurns(body, linesMax);
    if (outcome.kind !== 'lines') return refuseLines(exchange, outcome, linesMax);
    if (exchange.aborted) return;

    const { lines } = outcome;
    const bodies = lines.map(({ bytes }) => bytes);
    const value = dedupeValue(exchange, webhook, body);
    const keys = value === null ? null : lines.map(({ number }) => dedupeKey(value, number));
    const batch = rows.many(exchange, webhook, bodies, keys, LINE_TYPE);
    if (batch[0]!.headers.length * lines.length > STORED_HEADER_BYTES_MAX)
      return exchange.problem(
        problem('batch_too_large', 'The headers are stored with each line, and are too long for this number of lines.'),
      );

    const stored = await new Promise<StoreOutcome>((report) =>
      events.store({ rows: batch, cell: webhook.cell, report }),
    );
    exchange.clock.lap(Stage.commit);
    if (stored.kind !== 'stored') return refuseStore(exchange, stored);
    const { duplicates } = stored;
    if (duplicates.size < batch.length) onStored(webhook, batch[0]!.receivedAtMs);
    const counts = webhook.counter.touch();
    counts.accepted += batch.length - duplicates.size;
    counts.duplicates += duplicates.size;
    exchange.isDuplicate = duplicates.size === batch.length;
    for (const [i, { length }] of bodies.entries()) if (!duplicates.has(i)) counts.bytes += length;
    const eventIds = batch.map(({ id }, i) => duplicates.get(i) ?? uuidText(id));
    answer(exchange, eventIds, duplicates.size);
  };
  return (request) =>
    void store(request).then(
      () => request.end(),
      (error) => request.fail(error),
    );
}

/** Reads a batch in slices, and lets other requests run between them. */
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
  if (outcome.kind === 'empty') return exchange.problem(problem('batch_empty'));
  if (outcome.kind === 'too_many')
    return exchange.problem(
      problem('batch_too_large', `The batch has more than ${linesMax} lines (BATCH_LINES_MAX); send it in parts.`),
    );
  exchange.problem(problem('batch_invalid', undefined, { errors: outcome.faults }));
}

/** Answers with the ids in line order; a duplicate line has the id of the stored event. The status is 200 if all lines are duplicates. */
function answer(exchange: Exchange, eventIds: readonly string[], duplicates: number): void {
  noteEvent(exchange, eventIds[0]!);
  const accepted = eventIds.length - duplicates;
  const repeats = duplicates === 0 ? {} : { duplicates, ...(accepted === 0 ? { duplicate: true } : {}) };
  exchange.json(accepted === 0 ? 200 : 202, { accepted, ids: eventIds, ...repeats });
}

interface Line<Memory extends ArrayBufferLike> {
  /** Line number from 1, empty lines included. */
  number: number;
  /** View of the body: the line without its line end. */
  bytes: Uint8Array<Memory>;
}

interface LineFault {
  line: number;
  detail: string;
}

export type LinesOutcome<Memory extends ArrayBufferLike> =
  | { kind: 'lines'; lines: Line<Memory>[] }
  /** The first FAULTS_MAX lines that are not JSON. */
  | { kind: 'faults'; faults: LineFault[] }
  | { kind: 'too_many' }
  | { kind: 'empty' };

/** Invalid lines reported in one answer. Reading stops at this number. */
export const FAULTS_MAX = 100;
/** Bytes read before a pause: 1 to 5 ms. A line is never split. */
const SLICE_BYTES = 524_288;

const LF = 0x0a;
const CR = 0x0d;

/**
 * Reads the lines of a body (they end with LF or CRLF) and checks that each is JSON. Skips empty lines. Yields where the caller may let
 * other requests run.
 * @param linesMax maximum number of non-empty lines; with more the outcome is `too_many`.
 */
export function* readLines<Memory extends ArrayBufferLike>(
  body: Uint8Array<Memory>,
  linesMax: number,
): Generator<undefined, LinesOutcome<Memory>> {
  const lines: Line<Memory>[] = [];
  const faults: LineFault[] = [];
  // A Buffer finds a byte with memchr; a typed array over shared memory reads one byte at a time.
  const buffer = Buffer.from(body.buffer, body.byteOffset, body.length);
  let pauseAt = SLICE_BYTES;
  for (let at = 0, number = 1; at < body.length && faults.length < FAULTS_MAX; number++) {
    const end = lineEnd(buffer, at);
    const textEnd = end > at && end < body.length && body[end - 1] === CR ? end - 1 : end;
    if (textEnd > at) {
      if (lines.length + faults.length === linesMax) return { kind: 'too_many' };
      const bytes = body.subarray(at, textEnd);
      const detail = jsonFault(bytes);
      if (detail === null) lines.push({ number, bytes });
      else faults.push({ line: number, detail });
    }
    at = end + 1;
    if (at < pauseAt) continue;
    pauseAt = at + SLICE_BYTES;
    yield;
  }
  if (faults.length > 0) return { kind: 'faults', faults };
  return lines.length === 0 ? { kind: 'empty' } : { kind: 'lines', lines };
}

/** Offset of the next LF, or the length of the body. */
function lineEnd(body: Buffer, start: number): number {
  // Avoids an indexOf call for each empty line: a body may hold a million of them.
  if (body[start] === LF) return start;
  if (body[start] === CR && body[start + 1] === LF) return start + 1;
  const found = body.indexOf(LF, start);
  return found < 0 ? body.length : found;
}
