/** POST /in/{webhook_id}/batch: stores each line of a verified body as an event, all in one commit. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Exchange } from '../../base/http/exchange.ts';
import { type Problem, problem } from '../../base/http/problem.ts';
import { Stage } from '../../base/telemetry/stages.ts';
import { uuidText } from '../../store/ids.ts';
import type { StoreOutcome } from './group-commit.ts';
import { type LinesOutcome, readLines } from './ndjson.ts';
import { dedupeKey, dedupeValue } from './rows.ts';
import { noteEvent, refuseStore, type Store, type StoreParts, type VerifiedRequest } from './store.ts';
import type { Webhook } from './webhook.ts';

/** Content type of every line. The content type of the batch itself stays in the stored headers. */
const LINE_TYPE = 'application/json';
/** Stored header bytes of one batch: each event stores the headers of its request. Reachable only with both limits raised. */
const HEADER_BYTES_MAX = 33_554_432;

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
    if (batch[0]!.headers.length * lines.length > HEADER_BYTES_MAX)
      return exchange.problem(
        problem('batch_too_large', 'The headers are stored with each line, and are too long for this number of lines.'),
      );

    const stored = await new Promise<StoreOutcome>((settle) =>
      events.store({ rows: batch, cell: webhook.cell, settle }),
    );
    exchange.lap(Stage.commit);
    if (stored.kind !== 'stored') return refuseStore(exchange, stored);
    const { duplicates } = stored;
    if (duplicates.size < batch.length) onStored(webhook, batch[0]!.receivedAtMs);
    webhook.counts.accepted += batch.length - duplicates.size;
    webhook.counts.duplicates += duplicates.size;
    for (const [i, { length }] of bodies.entries()) if (!duplicates.has(i)) webhook.counts.bytes += length;
    const eventIds = batch.map(({ id }, i) => duplicates.get(i) ?? uuidText(id));
    answer(exchange, eventIds, duplicates.size);
  };
  return (request) =>
    void store(request).then(
      () => request.end(),
      (error) => request.fail(error),
    );
}

/** Returns why a webhook refuses batches; null when it accepts them. Checked before the body is read: it depends on the scheme only. */
export function refusesBatches({ scheme }: Webhook): Problem | null {
  return scheme.takesBatches ? null : problem('batch_unsupported');
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
  if (outcome.kind === 'empty') return exchange.problem(problem('batch_empty'));
  if (outcome.kind === 'too_many')
    return exchange.problem(
      problem('batch_too_large', `The batch has more than ${linesMax} lines (BATCH_LINES_MAX); send it in parts.`),
    );
  exchange.problem(problem('batch_invalid', undefined, { errors: outcome.faults }));
}

/** Answers the ids in line order; a duplicate line has the id of the stored event. The status is 200 when all lines are duplicates. */
function answer(exchange: Exchange, eventIds: readonly string[], duplicates: number): void {
  noteEvent(exchange, eventIds[0]!);
  const accepted = eventIds.length - duplicates;
  const repeats = duplicates === 0 ? {} : { duplicates, ...(accepted === 0 ? { duplicate: true } : {}) };
  exchange.json(accepted === 0 ? 200 : 202, { accepted, ids: eventIds, ...repeats });
}
