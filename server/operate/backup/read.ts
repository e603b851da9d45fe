/** `weir event import`: stores the events of an archive again, with their ids. */
import { createReadStream } from 'node:fs';
import { pipeline, type Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { DAY_MS } from '../../base/time/durations.ts';
import { OperatorError } from '../../model/fault.ts';
import type { Cells } from '../../store/cells/cells.ts';
import type { Database } from '../../store/connect/pool.ts';
import { firstKeptDay } from '../../store/retention/drop-partitions.ts';
import { createPartition, partitionedTables, partitionName } from '../../store/retention/partitions.ts';
import { moveMarksBack } from '../../store/retention/retention.ts';
import { type ArchivedEvent, archivedEvent, bodyOf } from './line.ts';

/** The file cannot be imported; events of earlier lines may have been. */
class ImportError extends OperatorError {}

/** Events stored in one statement, and the sum of their lines. */
const BATCH_EVENTS = 500;
const BATCH_BYTES = 4_194_304;
const BATCH_TIMEOUT_MS = 60_000;
/** Half of what a string of V8 can hold: a body of 64 MiB in base64, or of 42 MiB of which every character is escaped. */
const LINE_BYTES_MAX = 268_435_456;

interface Imported {
  imported: number;
  /** Events that were stored already. */
  existing: number;
}

/**
 * Imports NDJSON, compressed when the name ends in `.gz`. Repeating it changes nothing. Creates the partitions of days that retention
 * keeps; refuses other days. The events get no deliveries (replay them). Throws ImportError.
 */
export async function importEvents(
  cells: Cells,
  path: string,
  { retentionDays, nowMs }: { retentionDays: number; nowMs: number },
): Promise<Imported> {
  await cells.load();
  const total: Imported = { imported: 0, existing: 0 };
  const firstKept = firstKeptDay(retentionDays, nowMs);
  const made = new Set<string>();
  let batch: ArchivedEvent[] = [];
  let bytes = 0;
  const store = async () => {
    for (const [key, events] of byCellAndDay(batch, cells)) {
      const { database } = cells.of(events[0]!.id);
      if (!made.has(key)) await makeDay(database, Date.parse(events[0]!.received_at));
      made.add(key);
      const stored = await insertEvents(database, events);
      total.imported += stored;
      total.existing += events.length - stored;
    }
    batch = [];
    bytes = 0;
  };
  for await (const { number, text } of linesOf(path)) {
    const event = parse(path, number, text);
    checkDay(event, firstKept, nowMs, `${path}, line ${number}`);
    batch.push(event);
    bytes += text.length;
    if (batch.length >= BATCH_EVENTS || bytes >= BATCH_BYTES) await store();
  }
  await store();
  return total;
}

async function* linesOf(path: string): AsyncGenerator<{ number: number; text: string }> {
  const file = createReadStream(path);
  // An error of the file ends the reading of what is decompressed.
  const input = path.endsWith('.gz') ? pipeline(file, createGunzip(), () => {}) : file;
  let number = 0;
  try {
    for await (const line of splitLines(input)) {
      number += 1;
      if (line === null)
        throw new ImportError(
          `${path}, line ${number} is longer than ${LINE_BYTES_MAX} bytes: it is not an archived event`,
        );
      const text = line.toString().trimEnd();
      if (text !== '') yield { number, text };
    }
  } catch (error) {
    if (error instanceof ImportError) throw error;
    throw new ImportError(`${path} cannot be read: ${(error as Error).message}`);
  }
}

/** Lines without their end; null: a line that is too long, which is not read to its end. A compressed file may hold any length. */
async function* splitLines(input: Readable): AsyncGenerator<Buffer | null> {
  let parts: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of input as AsyncIterable<Buffer>) {
    let start = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      yield Buffer.concat([...parts, chunk.subarray(start, end)]);
      [parts, bytes] = [[], 0];
      start = end + 1;
    }
    parts.push(chunk.subarray(start));
    bytes += chunk.length - start;
    if (bytes > LINE_BYTES_MAX) {
      yield null;
      return;
    }
  }
  yield Buffer.concat(parts);
}

function parse(path: string, number: number, text: string): ArchivedEvent {
  const refuse = (reason: string) => new ImportError(`${path}, line ${number} is not an archived event: ${reason}`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw refuse('it is not JSON');
  }
  const parsed = archivedEvent.safeParse(value);
  if (parsed.success) return parsed.data;
  const { path: member, message } = parsed.error.issues[0]!;
  throw refuse(`${member.length === 0 ? '' : `${member.join('.')}: `}${message}`);
}

function checkDay({ received_at }: ArchivedEvent, firstKept: string, nowMs: number, line: string): void {
  const day = dayOf(received_at);
  if (day < firstKept)
    throw new ImportError(
      `${line}: retention would remove an event of ${received_at} within an hour`,
      'raise RETENTION_DAYS, or import into another installation with a higher one',
    );
  if (Date.parse(received_at) > nowMs + DAY_MS) throw new ImportError(`${line}: ${received_at} is in the future`);
}

function dayOf(receivedAt: string): string {
  return new Date(receivedAt).toISOString().slice(0, 10).replaceAll('-', '');
}

function byCellAndDay(events: readonly ArchivedEvent[], cells: Cells): Map<string, ArchivedEvent[]> {
  const parts = new Map<string, ArchivedEvent[]>();
  for (const event of events) {
    const key = `${cells.of(event.id).number} ${dayOf(event.received_at)}`;
    parts.set(key, [...(parts.get(key) ?? []), event]);
  }
  return parts;
}

/** Both tables: a replay stores deliveries of the same day. */
async function makeDay(database: Database, ms: number): Promise<void> {
  const fromMs = Math.floor(ms / DAY_MS) * DAY_MS;
  for (const table of partitionedTables) await createPartition(database, table, fromMs);
}

/** Inserts into the partition: the fan-out is a trigger of the parent table and does not fire. Returns how many were new. */
async function insertEvents({ query }: Database, events: readonly ArchivedEvent[]): Promise<number> {
  const rows = events.map(({ body, body_base64, headers, ...event }) => ({
    ...event,
    headers: Buffer.from(typeof headers === 'string' ? headers : headerLines(headers)).toString('base64'),
    body: bodyOf({ body, body_base64 }).toString('base64'),
  }));
  const stored = await query({
    text: `
      with stored as (
        insert into ${partitionName('events', Date.parse(events[0]!.received_at))}
          (id, webhook_id, received_at, source_ip, headers, content_type, event_type, body, bytes)
        select id, webhook_id, received_at, source_ip, decode(headers, 'base64'), content_type, event_type, decode(body, 'base64'), bytes
        from json_to_recordset($1::json) as given (id uuid, webhook_id uuid, received_at timestamptz, source_ip inet, headers text,
          content_type text, event_type text, body text, bytes integer)
        on conflict do nothing
        returning webhook_id, received_at
      ), kept_again as (${moveMarksBack('stored')})
      select 1 from stored`,
    values: [JSON.stringify(rows)],
    timeoutMs: BATCH_TIMEOUT_MS,
  });
  return stored.length;
}

function headerLines(headers: Record<string, string>): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n');
}
