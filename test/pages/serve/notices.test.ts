import { expect, test } from 'vitest';
import { describeNotice, Notices } from '../../../server/pages/serve/notices.ts';

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
  expect(describeNotice(new URLSearchParams(query))?.text ?? null).toBe(notice);
});

test('a change that another form undoes has that form', () => {
  const undo = describeNotice(new URLSearchParams('notice=disabled'))?.undo;
  expect(undo).toEqual({ path: '/switch', fields: { enabled: 'true' } });
  expect(describeNotice(new URLSearchParams('notice=deleted'))?.undo).toBe(null);
});

test('a change of many deliveries is undone by the id of its action', () => {
  const id = '0190a5c6-0000-7000-8000-000000000000';
  const undo = (query: string) => describeNotice(new URLSearchParams(query))?.undo;
  expect(undo(`notice=dead-dismissed&state=dead&count=2&action=${id}`)).toEqual({
    path: '/undo',
    fields: { action_id: id, state: 'dead' },
  });
  expect(undo('notice=dead-dismissed&count=2&action=other')).toBe(null);
  expect(undo(`notice=deleted&action=${id}`)).toBe(null);
});

const KEY = Buffer.alloc(32, 7);
const STARTED_MS = 1_800_000_000_000;
let nowMs = STARTED_MS;
const notices = new Notices(KEY, () => nowMs);
const shown = (address: string, session: string | null, by = notices) => {
  const [path, query] = address.split('?') as [string, string];
  return by.noticeOf({ path, query }, session)?.text ?? null;
};

test('the URL after a change shows its notice to that session for a minute, in every process', () => {
  nowMs = STARTED_MS;
  const url = notices.addressWith('dead-replayed', '/deliveries?state=dead&count=2', 'session');
  const otherProcess = new Notices(KEY, () => nowMs);
  expect(shown(url, 'session', otherProcess)).toBe('2 dead letters are pending again.');
  nowMs += 60_000;
  expect(shown(url, 'session')).toBe('2 dead letters are pending again.');
  nowMs += 1;
  expect(shown(url, 'session')).toBe(null);
});

test('a notice before or after sign-in has no session, and is shown with one', () => {
  nowMs = STARTED_MS;
  expect(shown(notices.addressWith('signed-out', '/sign-in', null), null)).toBe('You are signed out.');
  expect(shown(notices.addressWith('set-up', '/', null), 'session')).toContain('set up');
});

const genuine = notices.addressWith('dead-replayed', '/deliveries?count=2', 'session');

test.each([
  ['without a proof', '/webhooks?notice=deleted', 'session'],
  ['of another session', genuine, 'other'],
  ['of a session, shown without one', genuine, null],
  ['for another path', genuine.replace('/deliveries', '/agents'), 'session'],
  ['with another name', genuine.replace('dead-replayed', 'dead-dismissed'), 'session'],
  ['with another count', genuine.replace('count=2', 'count=3'), 'session'],
  ['with a later end', genuine.replace(/proof=18/, 'proof=19'), 'session'],
  ['with a second count', `${genuine}&count=9`, 'session'],
])('a notice %s is not shown', (_, url, session) => {
  nowMs = STARTED_MS;
  expect(genuine).toMatch(/proof=18/);
  expect(shown(url, session)).toBe(null);
});
