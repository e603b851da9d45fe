/**
 * Spare WAL files of the embedded server, which keeps only files that it had. The commit that needs a new file waits 40 to 140 ms until it is
 * written (bench/NOTES.md).
 */
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Database } from '../connect/pool.ts';

/** At most this share of the free space, before the first file. */
const DISK_SHARE = 0.1;
/** Time without other writes before a file is made. */
const QUIET_MS = 200;
/** WAL that others write within QUIET_MS while no sender waits, such as counts that are written behind. */
const QUIET_BYTES = 16_384;
/** Writes what the server has in memory: `shared_buffers` at most. */
const CHECKPOINT_TIMEOUT_MS = 120_000;

const lookSql = `
  select count(*)::int as files, pg_size_bytes(current_setting('wal_segment_size'))::float8 as "fileBytes",
    case current_setting('archive_mode') when 'off' then pg_size_bytes(current_setting('min_wal_size')) else 0 end::float8 as "wantedBytes",
    pg_current_wal_insert_lsn() - '0/0' as position
  from pg_ls_waldir() where name ~ '^[0-9A-F]{24}$'`;

/**
 * Makes WAL files up to `min_wal_size` or a tenth of the free space, one at a time while nothing else writes, and a checkpoint that keeps
 * them to be used again. Resolves with their number; 0: there were enough, or they would be archived. Rejects when the role may not.
 * @param freeBytes at the directory of the WAL
 * @param signal ends it with a rejection
 */
export async function fillWalPool(database: Database, freeBytes: number, signal: AbortSignal): Promise<number> {
  const look = async () => (await database.query<Look>({ text: lookSql }))[0]!;
  let last = await look();
  const { files, fileBytes } = last;
  const wantedFiles = Math.min(last.wantedBytes, (freeBytes + files * fileBytes) * DISK_SHARE) / fileBytes;
  while (last.files < Math.floor(wantedFiles)) {
    await delay(QUIET_MS, undefined, { signal });
    const now = await look();
    // The message fills no file: the server switches only from a file that has records.
    if (Number(now.position) - Number(last.position) <= QUIET_BYTES)
      await database.query({ text: `select pg_switch_wal() from pg_logical_emit_message(false, 'weir', '')` });
    last = await look();
  }
  if (last.files > files) await database.query({ text: 'checkpoint', timeoutMs: CHECKPOINT_TIMEOUT_MS });
  return last.files - files;
}

interface Look {
  files: number;
  fileBytes: number;
  wantedBytes: number;
  /** Bytes, as text. */
  position: string;
}

/** Free space at the WAL of the server in DATA_DIR, in bytes. */
export async function freeWalBytes(dataDir: string): Promise<number> {
  const { bavail, bsize } = await statfs(join(dataDir, 'postgres/pg_wal'));
  return bavail * bsize;
}
