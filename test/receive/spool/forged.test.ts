/** Bodies that hold frames, in files that are torn or damaged: what a sender wrote never becomes an event, and answered events are found. */
import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import type { DiskFile } from '../../../server/receive/spool/disk.ts';
import { mayHoldFrame, readFrame, readHead } from '../../../server/receive/spool/read-segment.ts';
import { encodeFrame, encodeHead, frameMark, sealFrame } from '../../../server/receive/spool/segment.ts';
import type { EventRow } from '../../../server/store/copy/rows.ts';
import { newRow } from './events.ts';

/** A file in memory that counts the bytes it was asked for. Every byte that is read is searched and hashed once at most. */
class CountingFile implements DiskFile {
  bytesRead = 0;
  reads = 0;
  readonly #content: Buffer;

  constructor(content: Buffer) {
    this.#content = content;
  }

  bytes = async () => this.#content.length;
  read = async (at: number, length: number) => {
    const part = this.#content.subarray(at, at + length);
    this.bytesRead += part.length;
    this.reads++;
    return part;
  };
  write = () => Promise.reject(new Error('read only'));
  truncate = this.write;
  flush = this.write;
  isAt = this.write;
  close = async () => {};
}

const mark = frameMark();
const head = encodeHead(mark);
const frame = (...rows: EventRow[]) => sealFrame(encodeFrame(rows), rows.length, mark);

/** Events of the good frames, and how the file ends. `kept`: the file is kept for the operator. */
async function drained(file: DiskFile): Promise<{ frames: number[]; kept: boolean }> {
  const head = await readHead(file);
  if (head === null) return { frames: [], kept: await mayHoldFrame(file) };
  const frames: number[] = [];
  let kept = false;
  for (let { next } = head; ; ) {
    const read = await readFrame(file, head, next);
    if (read.kind === 'end' || read.kind === 'torn') return { frames, kept };
    if (read.kind === 'frame') frames.push(read.frame.events);
    kept ||= read.kind === 'damaged';
    next = read.next;
  }
}

/** Frames of 9 events, as a sender can make them, and a whole file. Good frames of the test have fewer events. */
function forgeries(): Buffer {
  const rows = Array.from({ length: 9 }, () => newRow({ body: Buffer.from('{}') }));
  const other = frameMark();
  const forged = sealFrame(encodeFrame(rows), 9, other);
  const zeros = sealFrame(encodeFrame(rows), 9, frameMark(Buffer.alloc(16)));
  return Buffer.concat([forged, zeros, encodeHead(other), forged]);
}

test('a file that is cut at any byte of a body with frames has no event of the body', async () => {
  const first = frame(newRow(), newRow());
  const whole = Buffer.concat([head, first, frame(newRow({ body: forgeries() }))]);
  expect(await drained(new CountingFile(whole))).toEqual({ frames: [2, 1], kept: false });
  for (let cut = head.length + first.length; cut < whole.length; cut++)
    expect(await drained(new CountingFile(whole.subarray(0, cut))), `cut at ${cut}`).toEqual({
      frames: [2],
      kept: false,
    });
});

test('a frame with frames in its body is damaged at any byte: the events of the body are not found', async () => {
  const [first, forged, last] = [
    frame(newRow()),
    frame(newRow({ body: forgeries() }), newRow()),
    frame(newRow(), newRow(), newRow()),
  ];
  const whole = Buffer.concat([head, first, forged, last]);
  for (let at = head.length + first.length; at < whole.length - last.length; at++) {
    const changed = Buffer.from(whole);
    changed[at]! ^= 0x11;
    expect(await drained(new CountingFile(changed)), `byte ${at}`).toEqual({ frames: [1, 3], kept: true });
  }
});

test('sizes that lead to a frame in a body are not followed', async () => {
  const body = forgeries();
  const bad = frame(newRow({ body }));
  const whole = Buffer.concat([head, bad, frame(newRow(), newRow())]);
  // The length that ends where the body begins.
  whole.writeUInt32BE(bad.indexOf(body) - 48, head.length + 24);
  expect(await drained(new CountingFile(whole))).toEqual({ frames: [2], kept: true });
});

test('a file with a damaged head and frames is kept, one without frames is not', async () => {
  const damaged = Buffer.from(head);
  damaged[12]! ^= 1;
  const endOf = (content: Buffer) => drained(new CountingFile(Buffer.concat([damaged, content])));
  expect(await endOf(frame(newRow()))).toEqual({ frames: [], kept: true });
  expect(await endOf(randomBytes(9_000))).toEqual({ frames: [], kept: false });
});

test('rows that do not fill their frame, or have other fields, are not read', async () => {
  const rows = Buffer.from(encodeFrame([newRow(), newRow()]));
  for (const [bytes, events] of [
    [rows, 1],
    [rows, 3],
    [rows.subarray(0, -1), 2],
    [Buffer.concat([rows, Buffer.alloc(1)]), 2],
  ] as const) {
    const wrong = sealFrame(Buffer.from(bytes), events, mark);
    const file = new CountingFile(Buffer.concat([head, wrong, frame(newRow())]));
    expect(await drained(file)).toEqual({ frames: [1], kept: true });
  }
});

/** Content of a body of 512 kB that costs a search as much as possible. */
const costly: [string, () => Buffer][] = [
  ['marks', () => Buffer.concat(Array<Buffer>(65_536).fill(Buffer.from('a7e0d4139bf25c86', 'hex')))],
  [
    'heads of frames that end with the file',
    () =>
      ends(48, (head, rest) => {
        head.write('a7e0d4139bf25c86', 'hex');
        head.writeUInt32BE(rest, 24);
        head.writeUInt32BE(~rest >>> 0, 32);
        head.fill(255, 36, 40);
      }),
  ],
  // As a sender can make it: with a key of its own.
  [
    'small good frames',
    () => Buffer.concat(Array<Buffer>(4_000).fill(sealFrame(encodeFrame([newRow()]), 1, frameMark()))),
  ],
];

function ends(step: number, write: (head: Buffer, rest: number) => void): Buffer {
  const body = Buffer.alloc(524_288 - (524_288 % step));
  for (let at = 0; at < body.length; at += step) write(body.subarray(at, at + step), body.length - at - step);
  return body;
}

/** Bytes read, of those of the file: its frames, the search, and the payloads that it verifies, each up to twice. */
const READ_FACTOR_MAX = 6;

test.each(costly)('a file with %s in a torn frame is read in time linear in its size', async (_, make) => {
  const torn = Buffer.concat([head, frame(newRow({ body: make() }))]).subarray(0, -1);
  const bad = Buffer.from(torn);
  bad[head.length]! ^= 1;
  const headless = Buffer.from(torn);
  headless[3]! ^= 1;
  for (const content of [torn, bad, headless]) {
    const file = new CountingFile(content);
    await drained(file);
    expect(file.bytesRead / content.length).toBeLessThan(READ_FACTOR_MAX);
    expect(file.reads).toBeLessThan(200);
  }
});

test('a file whose every second frame is bad is read in time linear in its size', async () => {
  const frames = Array.from({ length: 2_000 }, (_, i) => {
    const one = frame(newRow({ body: randomBytes(2_000) }));
    one[i % 4 === 0 ? 60 : 0]! ^= i % 2 === 0 ? 1 : 0;
    return one;
  });
  const content = Buffer.concat([head, ...frames]);
  const file = new CountingFile(content);
  expect((await drained(file)).frames).toHaveLength(1_000);
  expect(file.bytesRead / content.length).toBeLessThan(READ_FACTOR_MAX);
});
