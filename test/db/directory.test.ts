import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { Directory } from '../../server/db/directory.ts';
import { until } from '../helpers/wait.ts';

interface Row {
  id: string;
  name: string;
}

/** A table whose answers come when the test lets them, and its questions. */
function table(rows: Row[]) {
  const asked: (readonly string[] | null)[] = [];
  const held: (() => void)[] = [];
  const state = { hold: false, away: false };
  const directory = new Directory<Row>(async (ids, rowsMax) => {
    asked.push(ids === null ? null : [...ids]);
    if (state.away) throw new Error('away');
    // As they are now, not when the answer arrives.
    const answer = rows.filter(({ id }) => ids === null || ids.includes(id)).slice(0, rowsMax);
    if (state.hold) await new Promise<void>((resolve) => held.push(resolve));
    return answer.map((row) => ({ ...row }));
  });
  const release = () => {
    for (const resolve of held.splice(0)) resolve();
  };
  return { rows, directory, asked, state, release };
}

const row = (name = 'a'): Row => ({ id: randomUUID(), name });
const now = () => Date.now();

describe('a row', () => {
  test('is asked for once and known from then on, while the primary is heard', async () => {
    const a = row();
    const { directory, asked } = table([a]);
    directory.heard(now());
    expect(await directory.find(a.id, now())).toEqual(a);
    expect(directory.find(a.id, now())).toEqual(a);
    expect(asked).toEqual([[a.id]]);
  });

  test('that was read ahead is known without a question', async () => {
    const a = row();
    const { directory, asked } = table([a]);
    await directory.preload();
    directory.heard(now());
    expect(directory.find(a.id, now())).toEqual(a);
    expect([asked, directory.size]).toEqual([[null], 1]);
  });

  test('that does not exist is remembered as such, until it is announced', async () => {
    const a = row();
    const { rows, directory, asked } = table([]);
    directory.heard(now());
    expect(await directory.find(a.id, now())).toBeNull();
    expect(directory.find(a.id, now())).toBeNull();
    expect(asked).toHaveLength(1);
    rows.push(a);
    await directory.invalidate(a.id);
    expect(directory.find(a.id, now())).toEqual(a);
  });

  test.each(['', 'nonsense', '../etc', 'x'.repeat(10_000)])('with an id that is none does not exist: %j', (id) => {
    const { directory, asked } = table([]);
    expect(directory.find(id, now())).toBeNull();
    expect(asked).toEqual([]);
  });
});

test('questions of one turn are one query, and many for the same row one question', async () => {
  const many = Array.from({ length: 50 }, () => row());
  const { directory, asked } = table(many);
  const finds = [...many, ...many].map(({ id }) => directory.find(id, now()));
  expect(await Promise.all(finds)).toEqual([...many, ...many]);
  expect(asked).toEqual([many.map(({ id }) => id)]);
});

test('a flood of ids that do not exist pushes out no row', async () => {
  const known = Array.from({ length: 10 }, () => row());
  const { directory, asked } = table(known);
  await directory.preload();
  directory.heard(now());
  for (let round = 0; round < 25; round++)
    await Promise.all(Array.from({ length: 1000 }, () => directory.find(randomUUID(), now())));
  directory.heard(now());
  const before = asked.length;
  for (const each of known) expect(directory.find(each.id, now())).toEqual(each);
  expect([asked.length, directory.size]).toEqual([before, 10]);
});

test('more misses than can be asked for at a time are not answered, the rest is', async () => {
  const { directory } = table([]);
  const finds = await Promise.all(Array.from({ length: 1500 }, () => directory.find(randomUUID(), now())));
  expect(finds.filter((found) => found === null)).toHaveLength(1000);
  expect(finds.filter((found) => found === undefined)).toHaveLength(500);
});

describe('a change', () => {
  test('that is announced holds when the announcement resolves', async () => {
    const a = row('before');
    const { rows, directory } = table([a]);
    await directory.preload();
    directory.heard(now());
    rows[0] = { ...a, name: 'after' };
    await directory.invalidate(a.id);
    expect(directory.find(a.id, now())).toMatchObject({ name: 'after' });
  });

  test('in the middle of a load is not undone by its older answer', async () => {
    const a = row('before');
    const { rows, directory, asked, state, release } = table([a]);
    directory.heard(now());
    state.hold = true;
    const older = directory.find(a.id, now());
    await until(() => asked.length === 1);
    rows[0] = { ...a, name: 'after' };
    const changed = directory.invalidate(a.id);
    await until(() => asked.length === 2);
    state.hold = false;
    release();
    await Promise.all([older, changed]);
    expect(await directory.find(a.id, now())).toMatchObject({ name: 'after' });
  });

  test('of everything, in the middle of a load, neither', async () => {
    const a = row('before');
    const { rows, directory, asked, state, release } = table([a]);
    directory.heard(now());
    state.hold = true;
    const older = directory.find(a.id, now());
    await until(() => asked.length === 1);
    rows[0] = { ...a, name: 'after' };
    directory.invalidateAll();
    state.hold = false;
    release();
    await older;
    expect(await directory.find(a.id, now())).toMatchObject({ name: 'after' });
  });

  test('is not believed away while the database is: the row is unknown, not the old one', async () => {
    const a = row();
    const { directory, state } = table([a]);
    await directory.preload();
    directory.heard(now());
    state.away = true;
    await expect(directory.invalidate(a.id)).rejects.toThrow('away');
    expect(await directory.find(a.id, now())).toBeUndefined();
    state.away = false;
    expect(await directory.find(a.id, now())).toEqual(a);
  });

  test('that removes a row makes it none', async () => {
    const a = row();
    const { rows, directory } = table([a]);
    await directory.preload();
    directory.heard(now());
    rows.pop();
    await directory.invalidate(a.id);
    expect([directory.find(a.id, now()), directory.size]).toEqual([null, 0]);
  });
});

describe('in silence', () => {
  const later = () => Date.now() + 1_001;

  test('of a second, rows are checked before they are believed, with one question for all that ask', async () => {
    const [a, b] = [row(), row()];
    const { directory, asked } = table([a, b]);
    await directory.preload();
    directory.heard(now());
    const laterMs = later();
    const finds = Array.from({ length: 100 }, (_, i) => directory.find(i % 2 === 0 ? a.id : b.id, laterMs));
    expect(await Promise.all(finds)).toEqual(Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? a : b)));
    expect(asked).toEqual([null, [a.id, b.id]]);
  });

  test('a row that was just checked is believed for a second', async () => {
    const a = row();
    const { directory, asked } = table([a]);
    expect(await directory.find(a.id, now())).toEqual(a);
    expect(directory.find(a.id, now())).toEqual(a);
    expect(await directory.find(a.id, later())).toEqual(a);
    expect(asked).toHaveLength(2);
  });

  test('and without the database nothing is believed', async () => {
    const a = row();
    const { directory, state } = table([a]);
    await directory.preload();
    state.away = true;
    expect(await directory.find(a.id, later())).toBeUndefined();
    expect(directory.known(a.id)).toEqual(a);
  });
});
