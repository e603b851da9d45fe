/** What a backup contains, counted in its snapshot and stored behind the archive, so that a restore can be compared with it. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { z } from 'zod';
import { DAY_MS } from '../../base/time/durations.ts';
import type { Query } from '../../store/connect/pool.ts';
import { isoText } from '../../store/sql.ts';

/** Rows of `events` and of `deliveries` whose contents are compared. */
const NEWEST_ROWS = 1_000;

const newestRows = z.object({
  rows: z.number(),
  /** Time of the newest row; null when there is no row. */
  last: z.string().nullable(),
  /** Hex SHA-256 over the rows. */
  sha256: z.string(),
});

const contents = z.object({
  schema_version: z.number(),
  /** Rows by table; each partition is a table. */
  tables: z.record(z.string(), z.number()),
  newest: z.object({ events: newestRows, deliveries: newestRows }),
});

const backupRecord = z.object({
  format: z.literal(1),
  /** Time of the snapshot. */
  snapshot_at: z.string(),
  server_version: z.string(),
  contents,
  archive: z.object({ bytes: z.number(), sha256: z.string() }),
});

type Contents = z.infer<typeof contents>;
export type BackupRecord = z.infer<typeof backupRecord>;

interface Table {
  name: string;
  /** As of the last VACUUM or ANALYZE: pg_table_size would wait for the table's lock. */
  pages: number;
  /** False: the parent of partitions, which are tables too. */
  stores: boolean;
}

/** The tables of Weir, by name. */
export function tablesOf(query: Query): Promise<Table[]> {
  return query<Table>({
    text: `select c.relname as name, greatest(c.relpages + coalesce(toast.relpages, 0), 1) as pages, c.relkind = 'r' as stores
           from pg_class c left join pg_class toast on toast.oid = c.reltoastrelid
           where c.relkind in ('r', 'p') and c.relnamespace = current_schema()::regnamespace order by 1`,
  });
}

/** Counts the rows of each table, which reads all of them, and hashes the newest ones. */
export async function readContents(query: Query): Promise<Contents> {
  const tables: Record<string, number> = {};
  for (const { name, stores } of await tablesOf(query)) {
    if (!stores) continue;
    const [row] = await query<{ rows: number }>({
      text: `select count(*)::float8 as rows from "${name}"`,
      timeoutMs: DAY_MS,
    });
    tables[name] = row!.rows;
  }
  const [schema] = await query<{ version: number }>({ text: 'select max(version) as version from schema_migrations' });
  const newest = { events: await readNewest(query, 'events'), deliveries: await readNewest(query, 'deliveries') };
  return { schema_version: schema!.version, tables, newest };
}

/** Each row is hashed alone, so that a thousand bodies of a megabyte are never in memory together. */
async function readNewest(query: Query, table: 'events' | 'deliveries'): Promise<z.infer<typeof newestRows>> {
  const [row] = await query<z.infer<typeof newestRows>>({
    text: `
      select count(*)::int as rows, ${isoText('max(received_at)')} as last,
        encode(sha256(coalesce(string_agg(sha256(convert_to(newest::text, 'UTF8')), ''::bytea order by received_at, id), '')), 'hex') as sha256
      from (select * from ${table} order by received_at desc, id desc limit ${NEWEST_ROWS}) newest`,
    timeoutMs: DAY_MS,
  });
  return row!;
}

/** What differs, one sentence each; none when the restored database equals the backup. */
export function compareContents(backup: Contents, restored: Contents): string[] {
  const names = [...new Set([...Object.keys(backup.tables), ...Object.keys(restored.tables)])].sort();
  const counts = names.flatMap((name) => {
    const [before, after] = [backup.tables[name] ?? 0, restored.tables[name] ?? 0];
    return before === after ? [] : [`${name}: ${before} rows in the backup, ${after} in the database`];
  });
  const hashes = (['events', 'deliveries'] as const).flatMap((table) =>
    backup.newest[table].sha256 === restored.newest[table].sha256
      ? []
      : [`${table}: the newest ${NEWEST_ROWS} rows are not the ones of the backup`],
  );
  return [...counts, ...hashes];
}

/** The last bytes of a backup file: the length of the JSON before them. pg_restore does not read behind the archive. */
const FOOTER = /\nweir-backup (\d{1,8})\n$/;
export const FOOTER_BYTES_MAX = 32;
/** The last member of the JSON; what is authenticated is the JSON without it, which has the hash of the archive. */
const MAC = /,"mac":"([0-9a-f]{64})"\}$/;

/** Appends the record to the archive and syncs the file. @param key null: the backup is not authenticated. */
export async function appendRecord(path: string, record: BackupRecord, key: Buffer | null): Promise<void> {
  const plain = JSON.stringify(record);
  const text = key === null ? plain : `${plain.slice(0, -1)},"mac":"${macOf(plain, key).toString('hex')}"}`;
  const json = Buffer.from(text);
  const file = await open(path, constants.O_WRONLY | constants.O_APPEND | constants.O_NOFOLLOW);
  try {
    await file.appendFile(Buffer.concat([json, Buffer.from(`\nweir-backup ${json.length}\n`)]));
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Returns where the JSON of a record begins and how long it is; null: the file does not end with a record. @param tail its last bytes. */
export function recordSpan(tail: Buffer, fileBytes: number): { start: number; bytes: number } | null {
  const footer = FOOTER.exec(tail.toString('latin1'));
  if (footer === null) return null;
  const bytes = Number(footer[1]);
  const start = fileBytes - footer[0].length - bytes;
  return start < 0 ? null : { start, bytes };
}

/** Parses the JSON of a record. Null: it is not a record. */
export function parseRecord(text: string): BackupRecord | null {
  try {
    return backupRecord.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

/** True if the record was written with one of these keys. @param text the JSON as it is in the file. */
export function isAuthentic(text: string, keys: readonly Buffer[]): boolean {
  const [member, mac] = MAC.exec(text) ?? [];
  if (member === undefined) return false;
  const plain = `${text.slice(0, -member.length)}}`;
  return keys.some((key) => timingSafeEqual(macOf(plain, key), Buffer.from(mac!, 'hex')));
}

function macOf(plain: string, key: Buffer): Buffer {
  return createHmac('sha256', key).update(plain).digest();
}
