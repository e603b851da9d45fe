/** ARCHIVE_DIR: the rows of a day as compressed NDJSON, written before the day's partition is dropped. */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { access, constants, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { createInPlace, flushPath } from '../../base/files/durable-file.ts';
import { OperatorError } from '../../model/fault.ts';
import type { Query } from '../../store/connect/pool.ts';
import type { Archive } from '../../store/retention/drop-partitions.ts';
import { isoText } from '../../store/sql.ts';
import { type ArchivedEvent, bodyMembers } from './line.ts';

/** Rows that one statement reads, and the sum of their bodies. One body may be larger. */
const PAGE_ROWS = 500;
const PAGE_BYTES = 4_194_304;
const PAGE_TIMEOUT_MS = 60_000;

/** Throws OperatorError if ARCHIVE_DIR is not a directory that this user can write to. */
export async function checkArchive(directory: string): Promise<void> {
  try {
    // The slash at the end refuses a file.
    await access(join(directory, '/'), constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new OperatorError(
      `ARCHIVE_DIR ${directory} cannot be written (${(error as Error).message})`,
      'create the directory, owned by the user that starts Weir, or unset ARCHIVE_DIR',
    );
  }
}

/**
 * Returns an archive in this directory: `events_20260131.ndjson.gz` and `deliveries_20260131.ndjson.gz`. A file is complete and synced
 * before it has its name. A run that was killed starts the file again. A file of an earlier run with other contents is kept: the new one
 * then is `events_20260131.2.ndjson.gz`.
 * @param stopping true: gives up before the next statement
 */
export function archiveTo(directory: string, stopping: () => boolean = () => false): Archive {
  return async (partition, query) => {
    const unfinished = join(directory, `${partition}.unfinished`);
    try {
      const rows = partition.startsWith('events_') ? eventLines(query, partition) : deliveryLines(query, partition);
      const fd = createInPlace(unfinished, 0o600);
      await pipeline(Readable.from(untilStopped(rows, stopping)), createGzip(), createWriteStream(unfinished, { fd }));
      await flushPath(unfinished);
      const path = await freeName(directory, partition, unfinished);
      if (path === null) await rm(unfinished);
      else await rename(unfinished, path);
      await flushPath(directory);
    } catch (error) {
      // Frees the space on a full disk.
      await rm(unfinished, { force: true }).catch(() => {});
      throw error;
    }
  };
}

async function* untilStopped(lines: AsyncIterable<string>, stopping: () => boolean): AsyncGenerator<string> {
  for await (const line of lines) {
    if (stopping()) throw new Error('Weir is stopping');
    yield line;
  }
}

interface Place {
  at: string;
  id: string;
  webhook_id: string;
}

interface StoredEvent extends Place, Omit<ArchivedEvent, 'headers' | 'webhook_id' | 'id'> {
  headers: Buffer;
  stored: Buffer;
}

async function* eventLines(query: Query, partition: string): AsyncGenerator<string> {
  const columns = `id, webhook_id, ${isoText('page.received_at')} as received_at, host(source_ip) as source_ip, event_type, content_type, bytes,
    headers, body as stored, page.received_at::text as at`;
  for await (const rows of pages<StoredEvent>(query, partition, columns))
    yield rows
      .map(({ at: _, stored, headers, ...event }) =>
        lineOf({ ...event, headers: headers.toString('utf8'), ...bodyMembers(stored) }),
      )
      .join('');
}

async function* deliveryLines(query: Query, partition: string): AsyncGenerator<string> {
  const columns = "(to_jsonb(page) - 'bytes_before')::text as line, received_at::text as at, id, webhook_id";
  for await (const rows of pages<Place & { line: string }>(query, partition, columns))
    yield rows.map(({ line }) => `${line}\n`).join('');
}

/** Walks the primary key. Each page is a statement of its own, without a cursor, which would hold a snapshot. */
async function* pages<Row extends Place>(query: Query, partition: string, columns: string): AsyncGenerator<Row[]> {
  let after: Row | undefined;
  do {
    const rows: Row[] = await query<Row>({
      text: `
        select ${columns} from (
          select *, sum(bytes) over (order by received_at, id, webhook_id rows unbounded preceding) - bytes as bytes_before
          from (
            select * from ${partition}
            ${after === undefined ? '' : 'where (received_at, id, webhook_id) > ($1::timestamptz, $2::uuid, $3::uuid)'}
            order by received_at, id, webhook_id limit ${PAGE_ROWS}
          ) walked
        ) page
        where bytes_before < ${PAGE_BYTES}
        order by page.received_at, page.id, page.webhook_id`,
      ...(after === undefined ? {} : { values: [after.at, after.id, after.webhook_id] }),
      timeoutMs: PAGE_TIMEOUT_MS,
    });
    if (rows.length > 0) yield rows;
    after = rows.at(-1);
  } while (after !== undefined);
}

function lineOf(event: ArchivedEvent): string {
  return `${JSON.stringify(event)}\n`;
}

/** The name for a new file; null if a file with the same contents exists: a run was killed before it dropped the partition. */
async function freeName(directory: string, partition: string, unfinished: string): Promise<string | null> {
  for (let number = 1; ; number++) {
    const path = join(directory, `${partition}${number === 1 ? '' : `.${number}`}.ndjson.gz`);
    const exists = await stat(path).then(
      () => true,
      () => false,
    );
    if (!exists) return path;
    if ((await hashOf(path)) === (await hashOf(unfinished))) return null;
  }
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}
