import { expect, test } from 'vitest';
import { EXPORTS_MAX, ExportPlaces, USER_EXPORTS_MAX } from '../../../../server/manage/api/events/export-places.ts';

test('a user has two places, and a process EXPORTS_MAX', () => {
  expect(USER_EXPORTS_MAX).toBe(2);
  const places = new ExportPlaces();
  const enter = (user: string) => {
    const place = places.enter(user);
    return place.kind === 'problem' ? place.code : place.leave;
  };
  const held = Array.from({ length: EXPORTS_MAX }, (_, i) => enter(`user ${Math.floor(i / USER_EXPORTS_MAX)}`));
  expect(held.every((place) => typeof place === 'function')).toBe(true);
  expect(enter('user 0')).toBe('user_exports_full');
  expect(enter('another')).toBe('exports_full');
  (held[0] as () => void)();
  expect(enter('another')).toBeTypeOf('function');
  expect(enter('user 0')).toBe('exports_full');
});

test('reads run two at a time, oldest first, also after one that fails', async () => {
  const places = new ExportPlaces();
  const order: string[] = [];
  const ends: (() => void)[] = [];
  const read = (name: string) =>
    places.inTurn(() => {
      order.push(name);
      return new Promise<void>((resolve) => ends.push(resolve));
    });
  const failed = places.inTurn(() => Promise.reject(new Error('lost'))).catch((error) => error.message);
  const reads = ['a', 'b', 'c'].map(read);
  expect(await failed).toBe('lost');
  await new Promise(setImmediate);
  expect(order).toEqual(['a', 'b']);
  ends[0]!();
  await reads[0];
  await new Promise(setImmediate);
  expect(order).toEqual(['a', 'b', 'c']);
  for (const end of ends) end();
  await Promise.all(reads);
});
