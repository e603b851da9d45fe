/** Bodies that hold frames, in files that are torn or damaged: what a sender wrote never becomes an event, and answered events are found. */
import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import type { DiskFile } from '../../../server/receive/spool/disk.ts';
import { mayHoldFrame, readFrame, readHead } from '../../../server/receive/spool/read-segment.ts';
import { encodeFrame, encodeHead, keyedLayout, sealFrame } from '../../../server/receive/spool/segment.ts';
import type { EventRow } from '../../../server/store/copy/rows.ts';
import { newRow } from './events.ts';
import { encodeOldFrame, encodeOldHead } from './old-segment.ts';

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

const layout = keyedLayout();
const writers = {
  keyed: {
    head: encodeHead(layout),
    frame: (...rows: EventRow[]) => sealFrame(encodeFrame(rows), rows.length, layout),
  },
  old: { head: encodeOldHead(), frame: (...rows: EventRow[]) => encodeOldFrame(rows) },
};
type Format = keyof typeof writers;

/** Events of the good frames, and how the file ends. `kept`: the file is kept for the operator. */
async function drained(file: DiskFile): Promise<{ frames: number[]; kept: boolean }> {
  const head = await readHead(file);
  if (head === null) return { frames: [], kept: await mayHoldFrame(file, 0) };
  const frames: number[] = [];
  let kept = false;
  for (let at: number | null = head.next; at !== null; ) {
    const read = await readFrame(file, head, at);
    if (read.kind === 'frame') frames.push(read.frame.events);
    kept ||= read.kind === 'damaged';
    at = read.kind === 'frame' || read.kind === 'damaged' ? read.next : null;
  }
  return { frames, kept };
}

/** Frames of 9 events, as a sender can make them: of both formats, and a whole file. Good frames of the test have fewer events. */
function forgeries(): Buffer {
  const rows = Array.from({ length: 9 }, () => newRow({ body: Buffer.from('{}') }));
  const other = keyedLayout();
  const keyed = sealFrame(encodeFrame(rows), 9, other);
  const zeros = sealFrame(encodeFrame(rows), 9, keyedLayout(Buffer.alloc(16)));
  return Buffer.concat([
    encodeOldFrame(rows),
    keyed,
    zeros,
    encodeHead(other),
    keyed,
    encodeOldHead(),
    encodeOldFrame(rows),
  ]);
}

test.each(['keyed', 'old'] as const)(
  '%s: a file that is cut at any byte of a body with frames has no event of the body',
  async (format) => {
    const { head, frame } = writers[format];
    const first = frame(newRow(), newRow());
    const whole = Buffer.concat([head, first, frame(newRow({ body: forgeries() }))]);
    expect(await drained(new CountingFile(whole))).toEqual({ frames: [2, 1], kept: false });
    for (let cut = head.length + first.length; cut < whole.length; cut++) {
      const { frames, kept } = await drained(new CountingFile(whole.subarray(0, cut)));
      expect(frames, `cut at ${cut}`).toEqual([2]);
      // The old format cannot tell a frame in a body from an answered one behind a damaged head.
      if (format === 'keyed') expect(kept, `cut at ${cut}`).toBe(false);
    }
  },
);

test.each(['keyed', 'old'] as const)(
  '%s: a frame with frames in its body is damaged at any byte: the events of the body are not found',
  async (format) => {
    const { head, frame } = writers[format];
    const [first, forged, last] = [
      frame(newRow()),
      frame(newRow({ body: forgeries() }), newRow()),
      frame(newRow(), newRow(), newRow()),
    ];
    const whole = Buffer.concat([head, first, forged, last]);
    let stopped = 0;
    for (let at = head.length + first.length; at < whole.length - last.length; at++) {
      const changed = Buffer.from(whole);
      changed[at]! ^= 0x11;
      const { frames, kept } = await drained(new CountingFile(changed));
      expect(kept, `byte ${at}`).toBe(true);
      if (format === 'old' && frames.length === 1) stopped++;
      else expect(frames, `byte ${at}`).toEqual([1, 3]);
    }
    // Format 1: the sizes and the lengths of the rows, about 30 fields of 4 bytes and the head of 16.
    expect(stopped).toBeLessThan(format === 'keyed' ? 1 : 160);
  },
);

test.each([
  ['keyed', 24],
  ['old', 8],
] as const)('%s: sizes that lead to a frame in a body are not followed', async (format, sizeAt) => {
  const { head, frame } = writers[format];
  const body = forgeries();
  const bad = frame(newRow({ body }));
  const whole = Buffer.concat([head, bad, frame(newRow(), newRow())]);
  // The length that ends where the body begins.
  const payloadAt = format === 'keyed' ? 48 : 24;
  whole.writeUInt32BE(bad.indexOf(body) - payloadAt, head.length + sizeAt);
  const { frames, kept } = await drained(new CountingFile(whole));
  expect({ frames, kept }).toEqual({ frames: format === 'keyed' ? [2] : [], kept: true });
});

test.each(['keyed', 'old'] as const)(
  '%s: a file with a damaged head and frames is kept, one without frames is not',
  async (format) => {
    const { head, frame } = writers[format];
    const damaged = Buffer.from(head);
    damaged[12]! ^= 1;
    expect(await drained(new CountingFile(Buffer.concat([damaged, frame(newRow())])))).toEqual({
      frames: [],
      kept: true,
    });
    expect(await drained(new CountingFile(Buffer.concat([damaged, randomBytes(9_000)])))).toEqual({
      frames: [],
      kept: false,
    });
  },
);

test('rows that do not fill their frame, or have other fields, are not read', async () => {
  const rows = Buffer.from(encodeFrame([newRow(), newRow()]));
  for (const [bytes, events] of [
    [rows, 1],
    [rows, 3],
    [rows.subarray(0, -1), 2],
    [Buffer.concat([rows, Buffer.alloc(1)]), 2],
  ] as const) {
    const frame = sealFrame(Buffer.from(bytes), events, layout);
    const file = new CountingFile(Buffer.concat([writers.keyed.head, frame, writers.keyed.frame(newRow())]));
    expect(await drained(file)).toEqual({ frames: [1], kept: true });
  }
});

/** Content of a body of 512 kB that costs a search as much as possible. */
const costly: [string, (format: Format) => Buffer][] = [
  ['marks', () => Buffer.concat(Array<Buffer>(32_768).fill(Buffer.from('f5c3a1e90d57b286a7e0d4139bf25c86', 'hex')))],
  [
    'heads of old frames that end with the file',
    () =>
      ends(24, (head, rest) => {
        head.write('f5c3a1e90d57b286', 'hex');
        head.writeUInt32BE(rest, 8);
      }),
  ],
  [
    'heads of keyed frames that end with the file',
    () =>
      ends(48, (head, rest) => {
        head.write('a7e0d4139bf25c86', 'hex');
        head.writeUInt32BE(rest, 24);
        head.writeUInt32BE(~rest >>> 0, 32);
        head.fill(255, 36, 40);
      }),
  ],
  [
    'small good frames',
    (format) =>
      Buffer.concat(Array<Buffer>(4_000).fill(format === 'old' ? writers.old.frame(newRow()) : foreign(newRow()))),
  ],
];

/** As a sender can make it: with a key of its own. */
function foreign(row: EventRow): Buffer {
  return sealFrame(encodeFrame([row]), 1, keyedLayout());
}

function ends(step: number, write: (head: Buffer, rest: number) => void): Buffer {
  const body = Buffer.alloc(524_288 - (524_288 % step));
  for (let at = 0; at < body.length; at += step) write(body.subarray(at, at + step), body.length - at - step);
  return body;
}

/** Bytes read, of those of the file: its frames, the search, and the payloads that it verifies, each up to twice. */
const READ_FACTOR_MAX = 6;

test.each(['keyed', 'old'] as const)(
  '%s: a file is read in time linear in its size, whatever is in a torn frame',
  async (format) => {
    const { head, frame } = writers[format];
    for (const [what, make] of costly) {
      const torn = Buffer.concat([head, frame(newRow({ body: make(format) }))]).subarray(0, -1);
      const bad = Buffer.from(torn);
      bad[head.length]! ^= 1;
      const headless = Buffer.from(torn);
      headless[3]! ^= 1;
      for (const content of [torn, bad, headless]) {
        const file = new CountingFile(content);
        await drained(file);
        expect(file.bytesRead / content.length, what).toBeLessThan(READ_FACTOR_MAX);
        expect(file.reads, what).toBeLessThan(200);
      }
    }
  },
);

test('a file whose every second frame is bad is read in time linear in its size', async () => {
  const { head, frame } = writers.keyed;
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
