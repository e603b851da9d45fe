import { describe, expect, test } from 'vitest';
import {
  eventTypeFault,
  eventTypeReader,
  normalEventTypeFrom,
  typedRequest,
} from '../../../server/model/signatures/event-type.ts';
import { exampleRequest } from '../../../server/model/signatures/examples.ts';
import { presets } from '../../../server/model/signatures/presets.ts';

const plain = { name: 'sha256', headers: [] as string[] };
const request = (headers: Record<string, string>) => ({ header: (name: string) => headers[name] });

/** The type of a request. */
function typeOf(from: string | null, headers: Record<string, string>, body: string, scheme = plain) {
  return eventTypeReader(from, scheme)?.(request(headers), Buffer.from(body));
}

describe('event_type_from', () => {
  test.each(['header:x-event', 'json:/type', 'json:/0/a~1b~0', 'header:a-b+json:/c', 'json:/a+b+json:/c+d', 'none'])(
    'may be %s',
    (text) => expect(eventTypeFault(text)).toBeNull(),
  );

  test.each([
    '',
    'type',
    'header:',
    'header:a b',
    'json:type',
    'json:',
    'json:/',
    'json:/a//b',
    'json:/~2',
    'none+json:/a',
  ])('may not be %o', (text) => expect(eventTypeFault(text)).toMatch(/^Give header:NAME/));

  test('has at most two sources', () => {
    expect(eventTypeFault('json:/a+json:/b+json:/c')).toMatch(/^Give/);
  });

  test.each(['header:authorization', 'header:cookie', 'json:/a+header:x-api-key', 'header:x-hub-signature-256'])(
    'is not a credential: %s',
    (text) => expect(eventTypeFault(text)).toMatch(/never stored/),
  );

  test('is stored with header names in lower case', () => {
    expect(normalEventTypeFrom(' Header:X-GitHub-Event+json:/Action ')).toBe('header:x-github-event+json:/Action');
  });

  test('of every preset is valid', () => {
    const given = presets.flatMap(({ name, eventType }) => (eventType === undefined ? [] : [{ name, eventType }]));
    expect(given.length).toBeGreaterThan(90);
    expect(given.filter(({ eventType }) => eventTypeFault(normalEventTypeFrom(eventType)) !== null)).toEqual([]);
    expect(given.filter(({ eventType }) => normalEventTypeFrom(eventType) !== eventType)).toEqual([]);
  });
});

describe('the type of an event', () => {
  test.each<[string, string | null, Record<string, string>, string, string | null | undefined]>([
    ['is a header', 'header:x-event', { 'x-event': 'push' }, '{', 'push'],
    ['is a member', 'json:/event/type', {}, '{"event":{"type":"paid"}}', 'paid'],
    ['is both, joined', 'header:x-event+json:/action', { 'x-event': 'issues' }, '{"action":"opened"}', 'issues.opened'],
    ['is the first alone', 'header:x-event+json:/action', { 'x-event': 'push' }, '{}', 'push'],
    ['is the second alone', 'header:x-event+json:/action', {}, '{"action":"opened"}', 'opened'],
    ['is null without either', 'header:x-event+json:/action', {}, 'no JSON', null],
    ['is null when it is empty', 'header:x-event', { 'x-event': ' \t' }, '', null],
    ['has no control characters', 'json:/type', {}, '{"type":"\\u0000a\\nb\\u0085"}', 'ab'],
    ['is well-formed', 'json:/type', {}, '{"type":"a\\ud800"}', 'a'],
    ['is cut between characters', 'header:x', { x: `${'x'.repeat(199)}🦊` }, '', 'x'.repeat(199)],
    ['is cut when joined', 'header:x+json:/a', { x: 'x'.repeat(200) }, '{"a":"b"}', 'x'.repeat(200)],
    ['is not read without a source', null, {}, '{"type":"paid"}', undefined],
    ['is not read from none', 'none', {}, '{"type":"paid"}', undefined],
  ])('%s', (_what, from, headers, body, type) => {
    expect(typeOf(from, headers, body)).toBe(type);
  });

  test('is read as the signature scheme says, unless the webhook says otherwise', () => {
    const github = { name: 'github', headers: ['x-hub-signature-256'] };
    const headers = { 'x-github-event': 'issues', 'x-own': 'own' };
    expect(typeOf(null, headers, '{"action":"opened"}', github)).toBe('issues.opened');
    expect(typeOf('header:x-own', headers, '{"action":"opened"}', github)).toBe('own');
    expect(typeOf('none', headers, '{"action":"opened"}', github)).toBeUndefined();
  });

  test('is never the signature', () => {
    const scheme = { name: 'custom', headers: ['x-sign'] };
    expect(typeOf('header:x-sign', { 'x-sign': 'abc' }, '', scheme)).toBeUndefined();
    expect(typeOf('header:x-sign+json:/a', { 'x-sign': 'abc' }, '{"a":"b"}', scheme)).toBe('b');
  });
});

describe('the type that is written into a request', () => {
  const github = 'header:x-github-event+json:/action';
  test.each<[string, string, Record<string, string>, string, string]>([
    ['header:x-type', 'a.b', {}, 'no JSON', 'a.b'],
    ['json:/type', 'a.b', {}, '{"type":"x","more":1}', 'a.b'],
    ['json:/event/type', 'a', {}, '{"event":"text"}', 'a'],
    ['json:/a~1b', 'c', {}, '{}', 'c'],
    [github, 'issues.opened', { 'x-github-event': 'push' }, '{"action":"x"}', 'issues.opened'],
    [github, 'push', { 'x-github-event': 'issues' }, '{"action":"opened"}', 'push'],
    [github, 'issues.opened', {}, '{}', 'issues.opened'],
    [github, 'push', {}, '[1]', 'push'],
    ['json:/__proto__/type', 'a', {}, '{}', 'none'],
  ])('%s: %s', (source, type, headers, body, expected) => {
    const typed = typedRequest(source, type, { headers, body })!;
    expect(typeOf(source, typed.headers, typed.body) ?? 'none').toBe(expected);
    expect(({} as { type?: string }).type).toBeUndefined();
  });

  test('cannot be written into a body that is not a JSON object', () => {
    for (const body of ['', '[]', 'null', '"text"', '{'])
      expect(typedRequest('json:/type', 'a', { headers: {}, body })).toBeNull();
  });
});

test.each([
  ['github', 'push'],
  ['gitlab', 'Push Hook'],
  ['gitlab-token', 'Push Hook'],
  ['paddle', 'transaction.paid'],
  ['shopify', 'orders/create'],
  ['slack', 'app_mention'],
  ['stripe', 'invoice.paid'],
])('the example of %s has the type %s', (name, type) => {
  const { headers, body } = exampleRequest(name)!;
  expect(typeOf(null, headers, JSON.stringify(body), { name, headers: [] })).toBe(type);
});

test('most senders have no example', () => {
  expect([exampleRequest('sha256'), exampleRequest('toString')]).toEqual([null, null]);
});
