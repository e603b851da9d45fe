/**
 * A backup file that is read several times. The first reading verifies the file and keeps a hash of each part. Later readings compare each
 * part with its hash before they pass it on, so that a file that changed after the check is not used.
 */
import { createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { whyUnreadable } from '../../base/files/text.ts';
import { type BackupRecord, FOOTER_BYTES_MAX, isAuthentic, parseRecord, recordSpan } from './record.ts';
import { BackupError, send } from './tools.ts';

/** Size of a part. The hash of a part takes 32 bytes of memory: 32 MB for a terabyte. */
const PART_BYTES = 1_048_576;

export interface ArchiveFile {
  /** Null: `weir backup` did not write the file, or not to its end. */
  record: BackupRecord | null;
  /** True: one of the keys authenticates the record, and with it the archive. */
  isAuthentic: boolean;
  /** Size and hash of the archive, without the record. */
  bytes: number;
  sha256: string;
  /** Writes the archive to a program. Ends early when the program has exited. Rejects with BackupError when the file has changed. */
  write(stdin: Writable): Promise<void>;
  close(): Promise<void>;
}

/** Opens and reads a file. Throws BackupError, also when its record does not fit its contents. @param keys of the purpose `backups` */
export async function readArchive(path: string, keys: readonly Buffer[] = []): Promise<ArchiveFile> {
  const file = await open(path, 'r').catch((error: Error) => {
    throw new BackupError(`${path} cannot be read: ${whyUnreadable(error)}`);
  });
  try {
    const found = await readRecord(file, path);
    const bytes = found?.record.archive.bytes ?? (await file.stat()).size;
    const whole = createHash('sha256');
    const hashes: Buffer[] = [];
    for await (const part of partsOf(file, bytes)) {
      whole.update(part);
      hashes.push(hashOf(part));
    }
    const sha256 = whole.digest('hex');
    if (found !== null && sha256 !== found.record.archive.sha256)
      throw new BackupError(`${path} is damaged: its contents have changed since it was written`, 'use another backup');
    return {
      record: found?.record ?? null,
      isAuthentic: found !== null && isAuthentic(found.text, keys),
      bytes,
      sha256,
      async write(stdin) {
        let index = 0;
        for await (const part of partsOf(file, bytes)) {
          if (!hashes[index++]?.equals(hashOf(part)))
            throw new BackupError(`${path} was changed while it was read. Nothing was restored`, 'use another backup');
          try {
            await send(stdin, part);
          } catch (error) {
            // The program exited before the end, as it does when it lists the archive. Its exit code reports whether it needed more.
            if (stdin.destroyed) return;
            throw error;
          }
        }
        stdin.end();
      },
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** The record as text and parsed. Null when the file has none. */
async function readRecord(file: FileHandle, path: string): Promise<{ text: string; record: BackupRecord } | null> {
  const { size } = await file.stat();
  const tail = await readAt(file, Math.max(0, size - FOOTER_BYTES_MAX), Math.min(size, FOOTER_BYTES_MAX));
  const span = recordSpan(tail, size);
  if (span === null) return null;
  const text = (await readAt(file, span.start, span.bytes)).toString('utf8');
  const record = parseRecord(text);
  if (record === null || record.archive.bytes !== span.start)
    throw new BackupError(`${path} is damaged: its record does not fit`, 'use another backup');
  return { text, record };
}

async function* partsOf(file: FileHandle, bytes: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes; ) {
    const part = await readAt(file, at, Math.min(PART_BYTES, bytes - at));
    yield part;
    // The file became shorter: the part has another hash.
    if (part.length === 0) return;
    at += part.length;
  }
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, position + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}

function hashOf(part: Buffer): Buffer {
  return createHash('sha256').update(part).digest();
}
