import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { realDisk } from '../../../server/receive/spool/disk.ts';
import { fileName, newStem, parseName } from '../../../server/receive/spool/names.ts';
import { readFrame, readFrameSize, readHead } from '../../../server/receive/spool/read-segment.ts';
import {
  columns,
  encodeFrame,
  encodeHead,
  type Frame,
  frameMark,
  receivedTimes,
  sealFrame,
  splitRows,
} from '../../../server/receive/spool/segment.ts';
import type { EventRow } from '../../../server/store/copy/rows.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { newRow } from './events.ts';

const folder = temporaryDirectory();
let files = 0;

/** What a drain reads from these bytes: the events of each good frame, and what is between and behind them. */
async function read(bytes: Buffer): Promise<(number | 'end' | 'torn' | 'damaged')[] | 'no head'> {
  const path = join(folder, String(files++));
  await writeFile(path, bytes);
  const file = await realDisk.open(path);
  try {
    const head = await readHead(file);
    if (head === null) return 'no head';
    expect(head.columns).toEqual(columns);
    const found: (number | 'end' | 'torn' | 'damaged')[] = [];
    for (let at = head.next; ; ) {
      const result = await readFrame(file, head, at);
      found.push(result.kind === 'frame' ? result.frame.events : result.kind);
      if (result.kind === 'end' || result.kind === 'torn') return found;
      at = result.next;
    }
  } finally {
    await file.close();
  }
}

const mark = frameMark();
const head = encodeHead(mark);
const frameOf = (...rows: EventRow[]) => sealFrame(encodeFrame(rows), rows.length, mark);
const frames = [3, 1, 2].map((events) => frameOf(...Array.from({ length: events }, () => newRow())));
const whole = Buffer.concat([head, ...frames]);

test('frames are read as they were written', async () => {
  expect(await read(whole)).toEqual([3, 1, 2, 'end']);
  expect(await read(head)).toEqual(['end']);
});

test('a file cut at any byte has the frames before the cut, and nothing else', async () => {
  const ends = [head.length, head.length + frames[0]!.length, whole.length - frames[2]!.length, whole.length];
  for (let cut = 0; cut < whole.length; cut++) {
    const good = [3, 1, 2].slice(0, Math.max(0, ends.filter((end) => end <= cut).length - 1));
    const expected = cut < head.length ? 'no head' : [...good, ends.includes(cut) ? 'end' : 'torn'];
    expect(await read(whole.subarray(0, cut)), `cut at ${cut}`).toEqual(expected);
  }
});

test('one changed byte of a frame makes it damaged, and the last one torn; the others are read', async () => {
  const at = (frame: number) => head.length + frames.slice(0, frame).reduce((sum, { length }) => sum + length, 0);
  for (const [frame, expected] of [
    [0, ['damaged', 1, 2, 'end']],
    [1, [3, 'damaged', 2, 'end']],
    [2, [3, 1, 'torn']],
  ] as const)
    for (let byte = 0; byte < frames[frame]!.length; byte += 7) {
      const changed = Buffer.from(whole);
      changed[at(frame) + byte]! ^= 0x10;
      expect(await read(changed), `byte ${byte} of frame ${frame}`).toEqual(expected);
    }
});

test('a length beyond the file, a frame magic in a body, and zeros at the end are recognized', async () => {
  const magic = frames[0]!.subarray(0, 8);
  const withMagic = frameOf(newRow({ body: Buffer.concat([randomBytes(9), magic, randomBytes(40)]) }));
  expect(await read(Buffer.concat([head, withMagic, frames[1]!]))).toEqual([1, 1, 'end']);
  const changed = Buffer.concat([head, withMagic, frames[1]!]);
  changed[head.length + 30]! ^= 1;
  expect(await read(changed)).toEqual(['damaged', 1, 'end']);
  const long = Buffer.from(frames[1]!);
  long.writeUInt32BE(0xffffffff, 24);
  expect(await read(Buffer.concat([head, frames[0]!, long]))).toEqual([3, 'torn']);
  expect(await read(Buffer.concat([whole, Buffer.alloc(4096)]))).toEqual([3, 1, 2, 'torn']);
});

test('the rows of a frame are divided, and have their times', async () => {
  const times = [1_700_000_000_123, 946_684_800_000, 900_000_000_007];
  const rows = times.map((receivedAtMs, i) => newRow({ receivedAtMs, ...(i === 1 ? { key: randomBytes(32) } : {}) }));
  const path = join(folder, 'rows');
  await writeFile(path, Buffer.concat([head, frameOf(...rows)]));
  const file = await realDisk.open(path);
  const found = (await readHead(file))!;
  expect(found).toEqual({ columns, mark, next: head.length });
  const result = (await readFrame(file, found, head.length)) as { frame: Frame; next: number };
  expect(await readFrameSize(file, found, head.length)).toEqual({ events: 3, next: result.next });
  expect(await readFrameSize(file, found, result.next)).toBe(null);
  await file.close();
  expect(receivedTimes(columns, result.frame)).toEqual(times);
  const [first, rest] = splitRows(result.frame, 2);
  expect([first.events, rest.events]).toEqual([2, 1]);
  expect(receivedTimes(columns, rest)).toEqual([times[2]]);
  expect(Buffer.concat([first.payload, rest.payload])).toEqual(result.frame.payload);
  expect((await readFile(path)).length).toBe(result.next);
});

test('names of segments are read as they were written, and other names are refused', () => {
  const stem = newStem(1_700_000_000_123.9);
  expect(parseName(fileName(stem, 'open'))).toEqual({
    stem,
    createdMs: 1_700_000_000_123,
    pid: process.pid,
    cell: 0,
    state: 'open',
  });
  const ofCell = newStem(1_700_000_000_123, 4_095);
  expect(parseName(fileName(ofCell, 'draining'))).toMatchObject({ stem: ofCell, cell: 4_095, state: 'draining' });
  const unversioned = '1700000000123-7-0123abcd';
  expect(newStem(5) < newStem(1_700_000_000_000)).toBe(true);
  for (const name of [
    '',
    'x',
    `${stem}.tmp`,
    `${stem}.open.gz`,
    `${stem}`,
    `${unversioned}.open`,
    `${unversioned}-v3.open`,
    `${unversioned}-v2-c0.open`,
    'lost+found',
  ])
    expect(parseName(name)).toBe(null);
});
