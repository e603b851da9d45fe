/**
 * A disk in memory that crashes at a chosen operation. A killed process keeps everything that was written. A power cut keeps what was
 * flushed, and a random part of the rest: any sectors of unflushed writes, and the first of the unflushed changes of names.
 */
import { basename } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Disk, DiskFile } from '../../../server/receive/spool/disk.ts';

const SECTOR_BYTES = 512;
/** Maximum turns that an operation takes, so that operations of several writers and a drain are mixed. */
const TURNS_MAX = 12;

export class Crash extends Error {}

interface Content {
  now: Buffer;
  flushed: Buffer;
  /** Unflushed writes, in order; a truncation has no bytes. */
  pending: { at: number; bytes: Buffer | null }[];
}

/** A change of the names: the whole folder after it. */
type Names = ReadonlyMap<string, Content>;

export class SimulatedDisk implements Disk {
  /** Operations so far. */
  operations = 0;
  readonly #crashAt: number;
  readonly #random: () => number;
  #names: Names = new Map();
  /** The names that are flushed, and then each later state. */
  #history: Names[] = [this.#names];
  #crashed = false;

  /** @param random from 0 to 1 */
  constructor(crashAt: number, random: () => number) {
    this.#crashAt = crashAt;
    this.#random = random;
  }

  /** Counts an operation that may be the last. `half`: called when the crash comes in its middle. Others may run before it. */
  async step(half: () => void = () => {}): Promise<void> {
    for (let turns = this.#random() * TURNS_MAX; turns > 0; turns--) await nextTurn();
    if (this.#crashed) throw new Crash();
    if (this.operations++ !== this.#crashAt) return;
    this.#crashed = true;
    if (this.#random() < 0.5) half();
    throw new Crash();
  }

  get crashed(): boolean {
    return this.#crashed;
  }

  /** The disk as the next start finds it. */
  after(crash: 'kill' | 'power cut'): SimulatedDisk {
    const next = new SimulatedDisk(Number.POSITIVE_INFINITY, this.#random);
    const names = crash === 'kill' ? this.#names : this.#history[Math.floor(this.#random() * this.#history.length)]!;
    const copies = new Map<string, Content>();
    for (const [name, content] of names) {
      const now = crash === 'kill' ? content.now : this.#surviving(content);
      copies.set(name, { now, flushed: now, pending: [] });
    }
    next.#names = copies;
    next.#history = [copies];
    return next;
  }

  #surviving({ flushed, pending }: Content): Buffer {
    let now: Buffer = Buffer.from(flushed);
    for (const { at, bytes } of pending) {
      if (bytes === null) {
        if (this.#random() < 0.5) now = now.subarray(0, at);
        continue;
      }
      for (let start = 0; start < bytes.length; start += SECTOR_BYTES)
        if (this.#random() < 0.6) now = written(now, at + start, bytes.subarray(start, start + SECTOR_BYTES));
    }
    return now;
  }

  #rename(names: Names): void {
    this.#names = names;
    this.#history.push(names);
  }

  async list(): Promise<{ name: string; bytes: number }[]> {
    await this.step();
    return [...this.#names].map(([name, { now }]) => ({ name, bytes: now.length }));
  }

  async create(path: string): Promise<DiskFile> {
    const name = basename(path);
    const content: Content = { now: Buffer.alloc(0), flushed: Buffer.alloc(0), pending: [] };
    const apply = () => this.#rename(new Map([...this.#names, [name, content]]));
    await this.step(apply);
    apply();
    return this.#file(content);
  }

  async open(path: string): Promise<DiskFile> {
    await this.step();
    return this.#file(this.#at(path));
  }

  async rename(from: string, to: string): Promise<void> {
    const apply = () => {
      const content = this.#at(from);
      const names = new Map(this.#names);
      names.delete(basename(from));
      this.#rename(names.set(basename(to), content));
    };
    await this.step(apply);
    apply();
  }

  async remove(path: string): Promise<void> {
    const apply = () => this.#rename(new Map([...this.#names].filter(([name]) => name !== basename(path))));
    await this.step(apply);
    apply();
  }

  async flushFolder(): Promise<void> {
    await this.step();
    this.#history = [this.#names];
  }

  #at(path: string): Content {
    const content = this.#names.get(basename(path));
    if (content === undefined) throw new Error(`ENOENT: ${path}`);
    return content;
  }

  #file(content: Content): DiskFile {
    return {
      bytes: async () => content.now.length,
      read: async (at, length) => Buffer.from(content.now.subarray(at, at + length)),
      write: async (at, bytes) => {
        const copy = Buffer.from(bytes);
        await this.step(() => write(content, at, copy.subarray(0, Math.floor(this.#random() * copy.length))));
        write(content, at, copy);
      },
      truncate: async (bytes) => {
        await this.step();
        content.now =
          bytes <= content.now.length ? content.now.subarray(0, bytes) : written(content.now, bytes, Buffer.alloc(0));
        content.pending.push({ at: bytes, bytes: null });
      },
      flush: async () => {
        await this.step();
        content.flushed = content.now;
        content.pending = [];
      },
      isAt: async (path) => {
        await this.step();
        return this.#names.get(basename(path)) === content;
      },
      close: async () => {},
    };
  }
}

function write(content: Content, at: number, bytes: Buffer): void {
  content.now = written(content.now, at, bytes);
  content.pending.push({ at, bytes });
}

/** A file with these bytes at a place; zeros fill a gap. */
function written(file: Buffer, at: number, bytes: Buffer): Buffer {
  const next = Buffer.alloc(Math.max(file.length, at + bytes.length));
  file.copy(next);
  bytes.copy(next, at);
  return next;
}
