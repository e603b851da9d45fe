import { expect, test } from 'vitest';
import { noticeOf } from '../../server/pages/notices.ts';

test.each([
  ['notice=saved', 'Saved.'],
  ['notice=dead-replayed&count=1', '1 dead letter is pending again.'],
  ['notice=dead-replayed&count=2000', '2,000 dead letters are pending again.'],
  ['notice=dead-replayed', null],
  ['notice=dead-replayed&count=many', null],
  ['notice=of+my+own', null],
  ['notice=valueOf', null],
  ['notice=toString', null],
  ['notice=constructor&count=1', null],
  ['notice=__proto__', null],
  ['', null],
])('the URL ?%s shows %s', (query, notice) => {
  expect(noticeOf(new URLSearchParams(query))?.text ?? null).toBe(notice);
});

test('a change that another form undoes has that form', () => {
  const undo = noticeOf(new URLSearchParams('notice=disabled'))?.undo;
  expect(undo).toEqual({ path: '/switch', fields: { enabled: 'true' } });
  expect(noticeOf(new URLSearchParams('notice=deleted'))?.undo).toBe(null);
});

test('a change of many deliveries is undone by the id of its action', () => {
  const id = '0190a5c6-0000-7000-8000-000000000000';
  const undo = (query: string) => noticeOf(new URLSearchParams(query))?.undo;
  expect(undo(`notice=dead-dismissed&state=dead&count=2&action=${id}`)).toEqual({
    path: '/undo',
    fields: { action_id: id, state: 'dead' },
  });
  expect(undo('notice=dead-dismissed&count=2&action=other')).toBe(null);
  expect(undo(`notice=deleted&action=${id}`)).toBe(null);
});
