/**
 * Crashes at every operation of a small run: two writers append while a drain works, then the process or the power fails, and the next
 * start drains what it finds. Every answered event is stored exactly once.
 */
import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Drain } from '../../../server/receive/spool/drain.ts';
import type { DrainTarget, SpoolStore } from '../../../server/receive/spool/store.ts';
import { SpoolWriter } from '../../../server/receive/spool/writer.ts';
import type { EventRow } from '../../../server/store/copy/rows.ts';
import { fuzzRuns } from '../../helpers/fuzz.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { shared } from '../../helpers/shared.ts';
import { idOf, newRow, openSpoolStore } from './events.ts';
import { Crash, SimulatedDisk } from './simulated-disk.ts';

const fresh = shared(freshDatabase);
let store: SpoolStore;
beforeAll(async () => {
  store = openSpoolStore(fresh);
});
afterAll(async () => {
  store.close();
});

/** Numbers from 0 to 1, the same for the same seed. */
function numbers(seed: string): () => number {
  let count = 0;
  return () => createHash('sha256').update(`${seed}:${count++}`).digest().readUInt32BE() / 2 ** 32;
}

interface Run {
  submitted: EventRow[];
  answered: EventRow[];
  disk: SimulatedDisk;
}

/** Appends and drains until the disk crashes, or to the end. */
async function run(crashAt: number, seed: string): Promise<Run> {
  const random = numbers(seed);
  const disk = new SimulatedDisk(crashAt, numbers(`${seed} disk`));
  const outcome: Run = { submitted: [], answered: [], disk };
  const keys = [randomBytes(32), randomBytes(32)];
  const writers = [0, 1].map(() => openWriter(disk));
  const drain = drainOf(disk, crashingTarget(disk));
  const ignoreCrash = (error: unknown) => {
    if (!(error instanceof Crash) && !disk.crashed) throw error;
  };
  const appends = writers.map(async (writer) => {
    for (let turn = 0; turn < 4 && !disk.crashed; turn++) {
      const rows = Array.from({ length: 1 + Math.floor(random() * 3) }, () => {
        const key = keys[Math.floor(random() * 4)];
        return newRow({ body: randomBytes(Math.floor(random() * 30_000)), ...(key === undefined ? {} : { key }) });
      });
      outcome.submitted.push(...rows);
      if ((await writer.append(rows)) === null) outcome.answered.push(...rows);
    }
  });
  const drains = (async () => {
    for (let turn = 0; turn < 3; turn++) await drain.run();
  })().catch(ignoreCrash);
  await Promise.all([...appends, drains]);
  await drain.run().catch(ignoreCrash);
  return outcome;
}

function openWriter(disk: SimulatedDisk): SpoolWriter {
  const nowMs = Date.now;
  const onFailed = (error: Error) => {
    if (!(error instanceof Crash)) throw error;
  };
  return new SpoolWriter({
    disk,
    folder: '',
    bytesMax: 4_194_304,
    ageMaxMs: 3_600_000,
    writers: () => 2,
    nowMs,
    onFailed,
  });
}

function drainOf(disk: SimulatedDisk, target: DrainTarget): Drain {
  const damaged = (name: string) => {
    throw new Error(`${name}: a crash never leaves a bad frame in front of a good one`);
  };
  return new Drain({ disk, folder: '', target, observer: { committed() {}, refused() {}, damaged } });
}

/** The crash may come before a transaction, and between its commit and its result. */
function crashingTarget(disk: SimulatedDisk): DrainTarget {
  return {
    connect: () => store.connect(),
    createPartitions: (columns, rows) => store.createPartitions(columns, rows),
    async store(columns, rows) {
      await disk.step();
      const result = await store.store(columns, rows);
      await disk.step();
      return result;
    },
  };
}

async function check({ submitted, answered, disk }: Run, crash: 'kill' | 'power cut'): Promise<void> {
  const found = disk.after(crash);
  expect(await drainOf(found, store).run()).toEqual({ kind: 'empty' });
  expect(await found.list()).toEqual([]);
  const rows = await fresh.sql<{ id: string }>('select id::text from events');
  const stored = rows.map(({ id }) => id);
  expect(new Set(stored).size).toBe(stored.length);
  const known = new Map(submitted.map((row) => [idOf(row), row]));
  expect(stored.filter((id) => !known.has(id))).toEqual([]);
  const missing = answered.filter((row) => row.key === null && !stored.includes(idOf(row)));
  expect(missing.map(idOf)).toEqual([]);
  const keysOf = (some: readonly EventRow[]) =>
    some.flatMap(({ key }) => (key === null ? [] : [Buffer.from(key).toString('hex')])).sort();
  const storedKeys = keysOf(stored.map((id) => known.get(id)!));
  expect(new Set(storedKeys).size).toBe(storedKeys.length);
  expect(keysOf(answered).filter((key) => !storedKeys.includes(key))).toEqual([]);
  await fresh.sql('delete from events; delete from dedupe_keys');
}

test('without a crash everything is answered and stored once', async () => {
  const whole = await run(Number.POSITIVE_INFINITY, 'whole');
  expect(whole.answered).toEqual(expect.arrayContaining(whole.submitted));
  await check(whole, 'power cut');
});

test.each(['kill', 'power cut'] as const)('a crash (%s) at every operation loses no answered event', async (crash) => {
  for (let seed = 0; seed < fuzzRuns(1); seed++) {
    let crashes = 0;
    for (let crashAt = 0; ; crashAt++) {
      const outcome = await run(crashAt, `${crash} ${seed} ${crashAt}`);
      await check(outcome, crash).catch((error: Error) => {
        throw new Error(`${crash}, seed ${seed}, operation ${crashAt}: ${error.message}`, { cause: error });
      });
      if (!outcome.disk.crashed) break;
      crashes++;
    }
    expect(crashes).toBeGreaterThan(30);
  }
});
