import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { Directory, ROWS_MAX } from '../../server/store/directory.ts';
import { until } from '../helpers/wait.ts';

interface Row {
  id: string;
  name: string;
}

/** A table whose results the test releases, and its queries. */
function table(rows: Row[], options = {}) {
  const asked: (readonly string[] | null)[] = [];
  const held: (() => void)[] = [];
  const state = { hold: false, away: false };
  const directory = new Directory<Row>(async (ids, rowsMax) => {
    asked.push(ids === null ? null : [...ids]);
    if (state.away) throw new Error('away');
    // The current rows, not those at the time of the result.
    const answer = rows.filter(({ id }) => ids === null || ids.includes(id)).slice(0, rowsMax);
    if (state.hold) await new Promise<void>((resolve) => held.push(resolve));
    return answer.map((row) => ({ ...row }));
  }, options);
  const release = () => {
    for (const resolve of held.splice(0)) resolve();
  };
  return { rows, directory, asked, state, release };
}

const row = (name = 'a'): Row => ({ id: randomUUID(), name });
const now = () => Date.now();
/** The time after which a checked row is no longer trusted. */
const later = () => Date.now() + 1_001;

describe('a row', () => {
  test('is queried once and cached while the primary is connected', async () => {
    const a = row();
    const { directory, asked } = table([a]);
    directory.recordHeartbeat(now());
    expect(await directory.find(a.id, now())).toEqual(a);
    expect(directory.find(a.id, now())).toEqual(a);
    expect(asked).toEqual([[a.id]]);
  });

  test('that was preloaded needs no query', async () => {
    const a = row();
    const { directory, asked } = table([a]);
    await directory.preload();
    directory.recordHeartbeat(now());
    expect(directory.find(a.id, now())).toEqual(a);
    expect([asked, directory.size]).toEqual([[null], 1]);
  });

  test('that does not exist is cached as missing until it is announced', async () => {
    const a = row();
    const { rows, directory, asked } = table([]);
    directory.recordHeartbeat(now());
    expect(await directory.find(a.id, now())).toBeNull();
    expect(directory.find(a.id, now())).toBeNull();
    expect(asked).toHaveLength(1);
    rows.push(a);
    await directory.invalidate(a.id);
    expect(directory.find(a.id, now())).toEqual(a);
  });

  test.each(['', 'nonsense', '../etc', 'x'.repeat(10_000)])('with an invalid id does not exist: %j', (id) => {
    const { directory, asked } = table([]);
    expect(directory.find(id, now())).toBeNull();
    expect(asked).toEqual([]);
  });
});

test('a row is looked up again when the clock was set back since its last check and the last heartbeat', async () => {
  const a = row();
  const { directory, asked } = table([a]);
  await directory.preload();
  const checkedMs = now();
  directory.recordHeartbeat(checkedMs);
  const before = asked.length;
  expect(directory.find(a.id, checkedMs - 500)).toEqual(a);
  expect(asked.length).toBe(before);
  expect(await directory.find(a.id, checkedMs - 3_600_000)).toEqual(a);
  expect(asked.length).toBe(before + 1);
});

test('look-ups of one turn share one query, and many look-ups of one row are one', async () => {
  const many = Array.from({ length: 50 }, () => row());
  const { directory, asked } = table(many);
  const finds = [...many, ...many].map(({ id }) => directory.find(id, now()));
  expect(await Promise.all(finds)).toEqual([...many, ...many]);
  expect(asked).toEqual([many.map(({ id }) => id)]);
});

test('a flood of unknown ids evicts no row', async () => {
  const known = Array.from({ length: 10 }, () => row());
  const { directory, asked } = table(known);
  await directory.preload();
  directory.recordHeartbeat(now());
  for (let round = 0; round < 25; round++)
    await Promise.all(Array.from({ length: 1000 }, () => directory.find(randomUUID(), now())));
  directory.recordHeartbeat(now());
  const before = asked.length;
  for (const each of known) expect(directory.find(each.id, now())).toEqual(each);
  expect([asked.length, directory.size]).toEqual([before, 10]);
});

test('at the limit of rows in memory, one that was not looked up again is evicted before an older one that was', async () => {
  const [used, other] = [row(), row()];
  const { directory } = table([used, other]);
  await directory.find(used.id, now());
  directory.recordHeartbeat(now());
  expect(directory.find(used.id, now())).toEqual(used);
  const unused = Array.from({ length: ROWS_MAX - 1 }, () => row());
  directory.seed(unused);
  expect(directory.size).toBe(ROWS_MAX);
  await directory.find(other.id, now());
  expect([directory.size, directory.known(unused[0]!.id)]).toEqual([ROWS_MAX, undefined]);
  expect([directory.known(used.id), directory.known(other.id)]).toEqual([used, other]);
});

test('lookups of unknown ids beyond the limit fail, others succeed', async () => {
  const { directory } = table([]);
  const finds = await Promise.all(Array.from({ length: 1500 }, () => directory.find(randomUUID(), now())));
  expect(finds.filter((found) => found === null)).toHaveLength(1000);
  expect(finds.filter((found) => found === undefined)).toHaveLength(500);
});

describe('the rows that the start left out', () => {
  const many = Array.from({ length: 20_250 }, () => row());

  test('are read ahead in parts, in the order of the ids', async () => {
    const { directory, asked } = table(many, { readIds: async () => many.map(({ id }) => id).join(',') });
    await directory.preload();
    await directory.readAhead();
    expect(asked.slice(1).map((ids) => ids!.length)).toEqual([100, 100, 50]);
    expect(asked.slice(1).flat()).toEqual(many.slice(20_000).map(({ id }) => id));
    directory.recordHeartbeat(now());
    expect(directory.find(many.at(-1)!.id, now())).toEqual(many.at(-1));
    expect(directory.size).toBe(many.length);
  });

  test('are not looked for when the start read all', async () => {
    const { directory, asked } = table([row()], { readIds: () => Promise.reject(new Error('not needed')) });
    await directory.preload();
    await directory.readAhead();
    expect(asked).toEqual([null]);
  });
});

describe('a change', () => {
  test('takes effect when its announcement resolves', async () => {
    const a = row('before');
    const { rows, directory } = table([a]);
    await directory.preload();
    directory.recordHeartbeat(now());
    rows[0] = { ...a, name: 'after' };
    await directory.invalidate(a.id);
    expect(directory.find(a.id, now())).toMatchObject({ name: 'after' });
  });

  test.each(['announced', 'missed'])('%s during a load is not reverted by the older result', async (change) => {
    const a = row('before');
    const { rows, directory, asked, state, release } = table([a]);
    directory.recordHeartbeat(now());
    state.hold = true;
    const older = directory.find(a.id, now());
    await until(() => asked.length === 1);
    rows[0] = { ...a, name: 'after' };
    const changed = change === 'missed' ? directory.invalidateAll() : directory.invalidate(a.id);
    if (change === 'announced') await until(() => asked.length === 2);
    state.hold = false;
    release();
    await Promise.all([older, changed]);
    expect(await directory.find(a.id, now())).toMatchObject({ name: 'after' });
  });

  test.each([
    ['announced', 'after'],
    ['announced', null],
    ['missed', 'after'],
    ['missed', null],
  ])('%s during a preload is not reverted by it (name afterwards: %s)', async (change, name) => {
    for (const first of ['change', 'preload']) {
      const [a, b] = [row('before'), row()];
      const { rows, directory, asked, state, release } = table([a, b]);
      const nowMs = now();
      directory.recordHeartbeat(nowMs);
      state.hold = true;
      const preload = directory.preload();
      rows.splice(0, 1, ...(name === null ? [] : [{ ...a, name }]));
      state.hold = first === 'preload';
      if (change === 'missed') directory.invalidateAll();
      const changed = change === 'missed' ? directory.find(a.id, nowMs) : directory.invalidate(a.id);
      await until(() => asked.length === 2);
      if (first === 'change') await changed;
      release();
      await Promise.all([preload, changed]);
      state.hold = false;
      expect((await directory.find(a.id, nowMs))?.name ?? null).toBe(name);
      // After a change that may have been missed, the other row is read again.
      expect(await directory.find(b.id, nowMs)).toEqual(b);
      expect(asked.length).toBe(change === 'missed' ? 3 : 2);
    }
  });

  test('is not hidden while the database is unavailable: the row is unknown instead of old', async () => {
    const a = row();
    const { directory, state } = table([a]);
    await directory.preload();
    directory.recordHeartbeat(now());
    state.away = true;
    await expect(directory.invalidate(a.id)).rejects.toThrow('away');
    expect(await directory.find(a.id, now())).toBeUndefined();
    state.away = false;
    expect(await directory.find(a.id, now())).toEqual(a);
  });
});

describe('without contact', () => {
  test('for a second, rows are checked before use, with one query for all callers', async () => {
    const [a, b] = [row(), row()];
    const { directory, asked } = table([a, b]);
    await directory.preload();
    directory.recordHeartbeat(now());
    const laterMs = later();
    const finds = Array.from({ length: 100 }, (_, i) => directory.find(i % 2 === 0 ? a.id : b.id, laterMs));
    expect(await Promise.all(finds)).toEqual(Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? a : b)));
    expect(asked).toEqual([null, [a.id, b.id]]);
  });

  test('a row that was just checked is used for a second', async () => {
    const a = row();
    const { directory, asked } = table([a]);
    expect(await directory.find(a.id, now())).toEqual(a);
    expect(directory.find(a.id, now())).toEqual(a);
    expect(await directory.find(a.id, later())).toEqual(a);
    expect(asked).toHaveLength(2);
  });

  test('and without the database no row is used', async () => {
    const a = row();
    const { directory, state } = table([a]);
    await directory.preload();
    state.away = true;
    expect(await directory.find(a.id, later())).toBeUndefined();
    expect(directory.known(a.id)).toEqual(a);
  });
});

describe('a directory that keeps serving', () => {
  const serving = (rows: Row[]) => table(rows, { keepsServing: () => true });

  test('uses rows as they were last read while the database fails or hangs, and the current ones afterwards', async () => {
    for (const outage of ['away', 'hold'] as const) {
      const a = row();
      const { directory, state, release, rows } = serving([a]);
      await directory.preload();
      directory.invalidateAll();
      state[outage] = true;
      expect(await directory.find(a.id, later())).toEqual(a);
      // Without waiting again.
      expect(directory.find(a.id, later())).toEqual(a);
      rows[0] = { ...a, name: 'b' };
      state[outage] = false;
      release();
      await until(async () => (await directory.find(a.id, later()))?.name === 'b');
    }
  });

  test('never uses a row that was announced as changed, nor one that it has not read', async () => {
    const a = row();
    const { directory, state } = serving([a]);
    await directory.preload();
    state.away = true;
    await expect(directory.invalidate(a.id)).rejects.toThrow('away');
    directory.invalidateAll();
    expect(await directory.find(a.id, now())).toBeUndefined();
    expect(await directory.find(randomUUID(), now())).toBeUndefined();
    state.away = false;
    expect(await directory.find(a.id, now())).toEqual(a);
  });
});
