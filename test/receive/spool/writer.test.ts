import { readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { HOUR_MS } from '../../../server/base/time/durations.ts';
import { type Disk, realDisk } from '../../../server/receive/spool/disk.ts';
import { fileName, newStem } from '../../../server/receive/spool/names.ts';
import { readFrame, readHead } from '../../../server/receive/spool/read-segment.ts';
import { SpoolWriter, segmentBytes } from '../../../server/receive/spool/writer.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { newRow } from './events.ts';

let folder: string;
let nowMs: number;
let failures: string[];
let writers: SpoolWriter[];
beforeEach(async () => {
  folder = temporaryDirectory();
  nowMs = Date.now();
  failures = [];
  writers = [];
});
afterEach(async () => {
  for (const writer of writers) await writer.close();
});

const BYTES_MAX = 1_048_576;

function open(given: { bytesMax?: number; disk?: Disk; cell?: number; writers?: () => number } = {}): SpoolWriter {
  const writer = new SpoolWriter({
    disk: realDisk,
    folder,
    bytesMax: BYTES_MAX,
    ageMaxMs: HOUR_MS,
    writers: () => 2,
    nowMs: () => nowMs,
    onFailed: ({ message }) => failures.push(message),
    ...given,
  });
  writers.push(writer);
  return writer;
}

async function bytesOnDisk(): Promise<number> {
  const sizes = await Promise.all((await readdir(folder)).map(async (name) => (await stat(join(folder, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}

const big = (bytes = 20_000) => newRow({ body: Buffer.alloc(bytes, 7) });

test('two writers fill the folder up to INGEST_SPOOL_BYTES_MAX, never above it, and have room again after a drain', async () => {
  const pair = [open(), open()];
  let appended = 0;
  for (let refused = 0; refused < 4; ) {
    nowMs += 1_001;
    const results = await Promise.all(pair.map((writer) => writer.append([big()])));
    for (const result of results) {
      if (result === null) appended++;
      else refused++;
      expect([null, 'full']).toContain(result);
    }
    expect(await bytesOnDisk()).toBeLessThanOrEqual(BYTES_MAX);
  }
  // The last room of a file is not used for a frame that does not fit.
  expect(appended).toBeGreaterThan((BYTES_MAX / 20_200) * 0.8);
  expect(await pair[0]!.refusal()).toBe('full');
  for (const name of await readdir(folder)) await rm(join(folder, name));
  nowMs += 1_001;
  expect(await pair[0]!.refusal()).toBe(null);
  expect(await pair[0]!.append([big()])).toBe(null);
});

test('a file of each cell leaves room, also after cells were added', async () => {
  // Sized for one writer, 9 open files of 128 KiB would fill the folder of 1 MiB.
  let cells = 1;
  const one = (cell: number) => open({ cell, writers: () => cells });
  const home = one(0);
  expect(await home.append([big(10)])).toBe(null);
  cells = 9;
  for (let cell = 1; cell < cells; cell++) expect(await one(cell).append([big(10)])).toBe(null);
  nowMs += 1_001;
  expect(await home.refusal()).toBe(null);
});

test('a frame larger than a file has a file of its own, and none when there is no room for it', async () => {
  const writer = open();
  expect(await writer.append([big(BYTES_MAX - 2_000)])).toBe(null);
  expect(await writer.append([newRow()])).toBe('full');
  await rm(join(folder, (await readdir(folder))[0]!));
  nowMs += 1_001;
  expect(await writer.append([big(BYTES_MAX + 1)])).toBe('full');
  expect(await readdir(folder)).toEqual([]);
  nowMs += 1_001;
  expect(await writer.append([newRow()])).toBe(null);
});

test('events are refused when the oldest file waits longer than INGEST_SPOOL_HOURS_MAX', async () => {
  const writer = open();
  expect(await writer.append([newRow()])).toBe(null);
  nowMs += HOUR_MS;
  expect(await writer.append([newRow()])).toBe(null);
  nowMs += 1_000;
  expect(await writer.append([newRow()])).toBe('too_old');
  expect(await writer.refusal()).toBe('too_old');
  const [name] = await readdir(folder);
  // A file that is kept for the operator is not waiting.
  await rename(join(folder, name!), join(folder, name!.replace('open', 'damaged')));
  nowMs += 1_000;
  expect(await writer.append([newRow()])).toBe(null);
});

test('a frame whose file the drain took during the flush is written again into a new file', async () => {
  let taken = 0;
  const taking: Disk = {
    ...realDisk,
    async create(path) {
      const file = await realDisk.create(path);
      const flush = file.flush.bind(file);
      file.flush = async () => {
        if (taken++ === 1) await rename(path, path.replace('.open', '.draining'));
        return flush();
      };
      return file;
    },
  };
  const writer = open({ disk: taking });
  expect(await writer.append([newRow()])).toBe(null);
  expect(await writer.append([newRow(), newRow()])).toBe(null);
  const events: Record<string, number[]> = {};
  for (const name of await readdir(folder)) {
    const file = await realDisk.open(join(folder, name));
    const found: number[] = [];
    const head = (await readHead(file))!;
    for (let at = head.next; ; ) {
      const read = await readFrame(file, head, at);
      if (read.kind !== 'frame') break;
      found.push(read.frame.events);
      at = read.next;
    }
    events[name.split('.')[1]!] = found;
    await file.close();
  }
  expect(events).toEqual({ draining: [1, 2], open: [2] });
});

test('after a failed write or flush the event is refused, the file is left, and what was answered is still readable', async () => {
  let fails: 'write' | 'flush' | null = null;
  const failing: Disk = {
    ...realDisk,
    async create(path) {
      const file = await realDisk.create(path);
      const { write, flush } = { write: file.write.bind(file), flush: file.flush.bind(file) };
      file.write = async (at, bytes) => {
        if (fails !== 'write') return write(at, bytes);
        await write(at, bytes.subarray(0, 10));
        throw new Error('ENOSPC');
      };
      file.flush = () => (fails === 'flush' ? Promise.reject(new Error('EIO')) : flush());
      return file;
    },
  };
  const writer = open({ disk: failing });
  for (const kind of ['write', 'flush'] as const) {
    expect(await writer.append([newRow()])).toBe(null);
    fails = kind;
    expect(await writer.append([newRow()])).toBe('failed');
    fails = null;
    // Not asked again for a second.
    expect(await writer.append([newRow()])).toBe('failed');
    nowMs += 1_001;
  }
  expect(failures).toEqual(['ENOSPC', 'EIO']);
  expect((await readdir(folder)).length).toBe(2);
  for (const name of await readdir(folder)) {
    const file = await realDisk.open(join(folder, name));
    const head = (await readHead(file))!;
    const first = await readFrame(file, head, head.next);
    expect(first).toMatchObject({ kind: 'frame', frame: { events: 1 } });
    expect((await readFrame(file, head, (first as { next: number }).next)).kind).toBe('end');
    await file.close();
  }
});

test('a folder that is gone refuses events', async () => {
  const writer = open();
  await rm(folder, { recursive: true });
  expect(await writer.refusal()).toBe('failed');
  expect(await writer.append([newRow()])).toBe('failed');
  await writeFile(folder, '');
});

test('files of other kinds count, and other names are ignored by age', async () => {
  await writeFile(join(folder, fileName(newStem(0), 'refused')), Buffer.alloc(BYTES_MAX));
  expect(await open().append([newRow()])).toBe('full');
});

test('the size of a file follows from the limit and the number of writers', () => {
  expect([segmentBytes(1_073_741_824, 2), segmentBytes(16_777_216, 8), segmentBytes(16_777_216, 1024)]).toEqual([
    16_777_216, 262_144, 65_536,
  ]);
});
