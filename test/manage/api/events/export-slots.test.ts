import { expect, test } from 'vitest';
import { EXPORTS_MAX, ExportSlots, USER_EXPORTS_MAX } from '../../../../server/manage/api/events/export.ts';

test('a user has two slots, and a process EXPORTS_MAX', () => {
  expect(USER_EXPORTS_MAX).toBe(2);
  const slots = new ExportSlots();
  const enter = (user: string) => {
    const slot = slots.enter(user);
    return slot.kind === 'problem' ? slot.code : slot.leave;
  };
  const held = Array.from({ length: EXPORTS_MAX }, (_, i) => enter(`user ${Math.floor(i / USER_EXPORTS_MAX)}`));
  expect(held.every((slot) => typeof slot === 'function')).toBe(true);
  expect(enter('user 0')).toBe('user_exports_full');
  expect(enter('another')).toBe('exports_full');
  (held[0] as () => void)();
  expect(enter('another')).toBeTypeOf('function');
  expect(enter('user 0')).toBe('exports_full');
});

test('reads run two at a time, oldest first, also after one that fails', async () => {
  const slots = new ExportSlots();
  const order: string[] = [];
  const ends: (() => void)[] = [];
  const read = (name: string) =>
    slots.inTurn(() => {
      order.push(name);
      return new Promise<void>((resolve) => ends.push(resolve));
    });
  const failed = slots.inTurn(() => Promise.reject(new Error('lost'))).catch((error) => error.message);
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
