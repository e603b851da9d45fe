/** GET /api/v1/events/export: the events of a filter as NDJSON or CSV, read page by page and sent as fast as the client reads. */
import { isUtf8 } from 'node:buffer';
import { setTimeout as delay } from 'node:timers/promises';
import type { z } from 'zod';
import type { Exchange } from '../../../base/http/exchange.ts';
import { type Problem, problemLater } from '../../../base/http/problem.ts';
import type { StreamAnswer } from '../../../base/http/stream.ts';
import { inTurns } from '../../../base/time/every.ts';
import type { eventSchema } from '../../../model/events.ts';
import type { Database } from '../../../store/connect/pool.ts';
import type { EventRecord } from '../../../store/queries/events/events.ts';
import { readBodies } from '../../../store/queries/events/lists.ts';
import { describeEvent } from './filter.ts';
import type { EventSearch, Search } from './search.ts';

/** Events of one export. For older ones, pass the id of the last one as the cursor. */
const EXPORTED_MAX = 100_000;
const PAGE_EVENTS = 200;
/** Limit on the bodies of one read, in bytes. A single body may be larger. */
const BODIES_BYTES_MAX = 4_194_304;
/** Pause before the next try while SEARCHES_MAX other searches run. */
const BUSY_MS = 200;

export const exportFormats = { ndjson: 'application/x-ndjson', csv: 'text/csv; charset=utf-8' } as const;
export type ExportFormat = keyof typeof exportFormats;

interface Export extends Pick<Search, 'filter' | 'span'> {
  format: ExportFormat;
  /** NDJSON only: each line has the body. */
  bodies: boolean;
}

/** The text of an export in parts. Each part is at most one page of events, or BODIES_BYTES_MAX of bodies and one body more. */
export async function* exportText(
  { database, search }: { database: Database; search: EventSearch },
  { filter, span, format, bodies }: Export,
  isGone: () => boolean = () => false,
  eventsMax = EXPORTED_MAX,
): AsyncGenerator<string, void, undefined> {
  if (format === 'csv') yield `${csvColumns.join(',')}\r\n`;
  let { before } = span;
  for (let left = eventsMax; left > 0 && !isGone(); ) {
    const limit = Math.min(left, PAGE_EVENTS);
    const found = await search.find({ filter, span: { ...span, before }, limit, isGone });
    if (found === null) {
      await delay(BUSY_MS);
      continue;
    }
    const { rows, stoppedAt } = found;
    left -= rows.length;
    before = stoppedAt ?? rows.at(-1)?.id ?? null;
    if (format === 'csv') yield rows.map(csvLine).join('');
    else if (!bodies) yield rows.map((row) => jsonLine(describeEvent(row))).join('');
    else yield* withBodies(database, rows);
    if (stoppedAt === null && rows.length < limit) return;
  }
}

/**
 * Sends the parts. Resolves when all are sent, or the client is gone or has stalled.
 * @param slots let this export read in turn with others
 * @param stalledMs a client that does not read a part in this time is disconnected
 */
export async function sendParts(
  exchange: Exchange,
  answer: StreamAnswer,
  parts: AsyncGenerator<string, void, undefined>,
  { slots, stalledMs }: { slots: ExportSlots; stalledMs: number },
): Promise<void> {
  const gone = new AbortController();
  exchange.whenGone(() => gone.abort());
  try {
    for (;;) {
      const { value: part, done } = await slots.inTurn(() => parts.next());
      if (gone.signal.aborted) return;
      if (done) break;
      if (part === '' || answer.write(part)) continue;
      if (!(await isWritable(answer, gone.signal, stalledMs))) return answer.cut();
    }
    answer.complete();
  } catch {
    // The status is sent already: only a connection that ends early tells the client that the export is not complete.
    answer.cut();
  }
}

function isWritable(answer: StreamAnswer, gone: AbortSignal, stalledMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), stalledMs);
    const end = (writable: boolean) => {
      clearTimeout(timer);
      resolve(writable);
    };
    gone.addEventListener('abort', () => end(false), { once: true });
    answer.whenWritable(() => end(true));
    if (gone.aborted) end(false);
  });
}

async function* withBodies(database: Database, rows: readonly EventRecord[]): AsyncGenerator<string, void, undefined> {
  for (let from = 0; from < rows.length; ) {
    let to = from;
    for (let bytes = 0; to < rows.length && (to === from || bytes + rows[to]!.bytes <= BODIES_BYTES_MAX); to++)
      bytes += rows[to]!.bytes;
    const group = rows.slice(from, to);
    const stored = await readBodies(
      database,
      group.map(({ id }) => id),
    );
    // An event that retention has removed since the search is omitted.
    yield group.map((row) => (stored.has(row.id) ? jsonLine(withBody(row, stored.get(row.id)!)) : '')).join('');
    from = to;
  }
}

function withBody(row: EventRecord, body: Buffer) {
  const text = isUtf8(body) && !body.includes(0);
  return { ...describeEvent(row), ...(text ? { body: body.toString() } : { body_base64: body.toString('base64') }) };
}

function jsonLine(value: object): string {
  return `${JSON.stringify(value)}\n`;
}

const csvColumns = [
  'received_at',
  'event_type',
  'webhook_id',
  'source_ip',
  'content_type',
  'bytes',
  'id',
] as const satisfies readonly (keyof z.output<typeof eventSchema>)[];

function csvLine(row: EventRecord): string {
  return `${csvColumns.map((column) => csvField(row[column])).join(',')}\r\n`;
}

/** A field of CSV (RFC 4180). Senders choose types: an apostrophe keeps a spreadsheet from executing a formula. */
function csvField(value: string | number | null): string {
  const text = String(value ?? '');
  const safe = /^[=+\-@\t]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Exports in progress of a process. Each holds up to 5 MiB that its client has not read. */
export const EXPORTS_MAX = 8;
/** Exports in progress of one user, so that no user can hold all slots. */
export const USER_EXPORTS_MAX = 2;
/** Exports that read from the database at a time: half of the default DB_POOL_MAX. */
const READS_MAX = 2;
const RETRY_SECONDS = 10;

/** The slot of a local administrator, to whom the limits of exports in progress do not apply. */
export const noSlot = { kind: 'entered', leave: () => {} } as const;

/**
 * Limits of exports. An export takes a connection of the database again and again, so READS_MAX exports read at a time, in turn. An export
 * that waits for its client takes no turn. What a client has not read is held in memory, so exports in progress are limited too.
 */
export class ExportSlots {
  #open = 0;
  readonly #openOf = new Map<string, number>();
  /** Runs a read of an export as one of READS_MAX at a time. */
  readonly inTurn = inTurns(READS_MAX);

  /** Takes a slot for an export. `leave`: call it once, when the export has ended. */
  enter(userId: string): { kind: 'entered'; leave: () => void } | Problem {
    const own = this.#openOf.get(userId) ?? 0;
    if (own >= USER_EXPORTS_MAX) return problemLater('user_exports_full', RETRY_SECONDS);
    if (this.#open >= EXPORTS_MAX) return problemLater('exports_full', RETRY_SECONDS);
    this.#open++;
    this.#openOf.set(userId, own + 1);
    return { kind: 'entered', leave: () => this.#leave(userId) };
  }

  #leave(userId: string): void {
    this.#open--;
    const left = this.#openOf.get(userId)! - 1;
    if (left === 0) this.#openOf.delete(userId);
    else this.#openOf.set(userId, left);
  }
}
