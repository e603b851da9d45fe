/** What an expression can make is bounded: a hostile one fails, and neither the thread nor the process ends. */
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Environment } from '@marcbachmann/cel-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FilterJudge } from '../../../server/deliver/claims/judge.ts';
import { type CandidateEvent, verdicts } from '../../../server/model/filters/evaluate.ts';
import { compileFilter } from '../../../server/model/filters/expression.ts';

const { passed, failed } = verdicts;
const workerFile = fileURLToPath(new URL('../../../dist/workers/filter.js', import.meta.url));
/** For a machine with more work than processors. */
const PATIENT_MS = 60_000;
let judge: FilterJudge;
beforeAll(() => {
  judge = new FilterJudge(workerFile, PATIENT_MS);
});
afterAll(() => judge.close());

const eventOf = (body: unknown): CandidateEvent => ({
  filter: 0,
  webhook: 'orders',
  headers: Buffer.from('host: example.org'),
  contentType: 'application/json',
  eventType: null,
  bytes: 3,
  body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
});

/** `init`, then `step` of the value before ($) `times` times, then `end`. */
function repeated(times: number, init: string, step: string, end: string): string {
  const of = (text: string, place: number) => text.replaceAll('$', `v${place}`);
  let text = of(end, times);
  for (let i = times; i > 0; i--) text = `cel.bind(v${i}, ${of(step, i - 1)}, ${text})`;
  return `cel.bind(v0, ${init}, ${text})`;
}

const LONG = 'a'.repeat(1_048_576);
const event = eventOf({
  text: LONG,
  digits: '1'.repeat(200),
  /** Examples of the patterns that V8 searches for slowest. */
  needle: `${'a'.repeat(511)}b${'a'.repeat(512)}`,
  texts: Array.from({ length: 1_000 }, () => 'abc'),
  numbers: Array.from({ length: 20_000 }, (_, place) => place),
});
const TOO_LARGE = 'a result is larger than 4194304 bytes';
const TOO_MANY = 'the results are larger than 33554432 bytes in all';

test('a filter reads JSON behind a byte order mark', async () => {
  expect((await judge.judge(['body.a == 1'], [eventOf('\ufeff{"a":1}')])).verdicts).toEqual([passed]);
});

test.each([
  ['texts that double', repeated(24, 'webhook', '$ + $', 'size($) > 1'), TOO_LARGE],
  ['lists that double', repeated(24, '[1, 2]', '$ + $', 'size($) > 1'), TOO_LARGE],
  ['bytes that double', repeated(24, 'b"ab"', '$ + $', 'size($) > 1'), TOO_LARGE],
  ['hexadecimal digits', repeated(24, 'bytes(webhook)', 'bytes($.hex())', 'size($) > 1'), TOO_LARGE],
  ['join', 'body.texts.join(body.text) == ""', TOO_LARGE],
  ['split', 'size(body.text.split("")) > 1', TOO_LARGE],
  ['letters that become three', repeated(20, '"\u0390\u0390"', '$ + $', 'size($.upperAscii()) > 1'), TOO_LARGE],
  ['JSON in bytes', 'bytes(body.text).json().a == 1', TOO_LARGE],
  ['bytes in a list', 'size(body.numbers.map(n, bytes(body.text))) > 1', TOO_MANY],
  ['lists in a list', 'size(body.numbers.map(n, body.numbers.map(m, m))) > 1', TOO_MANY],
  ['maps in a list', 'size(body.numbers.map(n, body.numbers.filter(m, size({"a": m, "b": n}) > 0))) > 1', TOO_MANY],
  ['a search', 'body.text.contains(body.needle)', 'contains: the text is too long to search'],
  ['a search backwards', 'body.text.lastIndexOf(body.needle) > 1', 'lastIndexOf: the text is too long to search'],
  ['a pattern', 'webhook.matches(body.text)', 'matches: the pattern is longer than 2000 characters'],
  ['a duration', 'duration(body.digits + "s") > duration("1s")', 'duration: the text is longer than 100 characters'],
])('%s: the filter fails on the event', async (_what, filter, reason) => {
  const { verdicts: given, failures } = await judge.judge([filter], [event]);
  expect([given, failures]).toMatchObject([[failed], [{ filter: 0, reason }]]);
});

test.each([
  ['a text of 4 MiB', repeated(2, 'body.text', '$ + $', 'size($) == 4194304')],
  ['a list of 4 MiB', repeated(18, '[1]', '$ + $', 'size($) == 262144')],
  ['30 MiB in all', `[${'body.text + "", '.repeat(30)}].all(text, size(text) == 1048576)`],
  ['a search of 256 Mi steps', 'body.text.contains(body.needle.substring(0, 256)) && !webhook.contains(body.text)'],
])('a filter with %s is within the bounds', async (_what, filter) => {
  expect(await judge.judge([filter], [event])).toEqual({ verdicts: [passed], failures: [] });
});

test.each([
  ['at the limit', 4_194_304, passed],
  ['one over it', 4_194_305, failed],
])('the limit on bodies that filters read, %s', async (_what, bytes, verdict) => {
  const body = `[${' '.repeat(bytes - 3)}1]`;
  const { verdicts: given } = await judge.judge(['body == [1]'], [eventOf(body)]);
  expect(given).toEqual([verdict]);
});

describe('types', () => {
  test.each([
    ['a map as a key', repeated(25, '{1: 1}', '{$: $}', 'true'), /: a key of a map cannot be a list or a map\.$/],
    ['lists inside each other', '[[[[[1]]]]] == []', /: lists and maps are nested deeper than 4\.$/],
    [
      'optionals inside each other',
      repeated(8, 'optional.of(1)', 'optional.of($)', '$.hasValue()'),
      /nested deeper than 4\.$/,
    ],
  ])('%s: the filter is refused', (_what, filter, detail) => {
    expect(compileFilter(filter)).toEqual({
      kind: 'fault',
      fault: { at: expect.any(Number), detail: expect.stringMatching(detail) },
    });
  });

  test('of bodies that are nested deeply are not kept', () => {
    const evaluate = compileFilter('body.a == webhook || webhook in body');
    if (evaluate.kind === 'fault') throw new Error(evaluate.fault.detail);
    let body: unknown = 1;
    for (let depth = 0; depth < 2_000; depth++) body = depth % 2 === 1 ? [body] : { a: body };
    const filter = { headers: {}, content_type: null, bytes: 1n, webhook: 'orders', event_type: null, body };
    const before = process.memoryUsage().heapUsed;
    expect(() => evaluate.passes(filter)).toThrow();
    // The names of 2,000 types take 15 MB.
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(5_000_000);
  });
});

test('a filter does not keep the event that it judged', async () => {
  setFlagsFromString('--expose-gc');
  const evaluate = compileFilter('body.list.exists(one, one == 1) || size(body.list.map(one, one)) > 5');
  if (evaluate.kind === 'fault') throw new Error(evaluate.fault.detail);
  const judged = () => {
    const body = { list: [1, 2] };
    evaluate.passes({ headers: {}, content_type: null, bytes: 1n, webhook: 'orders', event_type: null, body });
    return new WeakRef(body);
  };
  const body = judged();
  // A WeakRef holds its target until the end of the task.
  await new Promise((resolve) => setImmediate(resolve));
  runInNewContext('gc')();
  expect(body.deref()).toBeUndefined();
});

test.each([
  ['body', 'body.constructor == 1 && body.a == 2', eventOf('{"constructor": 1, "a": 2}')],
  ['body, escaped', 'body.list[0].a == 2', eventOf('{"list": [{"\\u0063onstructor": 1, "a": 2}]}')],
  ['headers', 'headers["host"] == "a"', { ...event, headers: Buffer.from('constructor: b\nhost: a') }],
])('a member of the name constructor hides none of the others: %s', async (_where, filter, given) => {
  expect(await judge.judge([filter], [given])).toEqual({ verdicts: [passed], failures: [] });
});

test('no function of the library is unknown to the bounds', () => {
  const { functions } = new Environment({ enableOptionalTypes: true }).getDefinitions();
  const names = [...new Set(functions.map(({ name }) => name))].toSorted();
  // One that is new and makes large values, or runs for long without an interrupt, belongs in bounds.ts.
  expect(names).toMatchInlineSnapshot(`
    [
      "all",
      "at",
      "base64",
      "bind",
      "bool",
      "bytes",
      "contains",
      "double",
      "duration",
      "dyn",
      "endsWith",
      "exists",
      "exists_one",
      "filter",
      "getDate",
      "getDayOfMonth",
      "getDayOfWeek",
      "getDayOfYear",
      "getFullYear",
      "getHours",
      "getMilliseconds",
      "getMinutes",
      "getMonth",
      "getSeconds",
      "has",
      "hasValue",
      "hex",
      "indexOf",
      "int",
      "join",
      "json",
      "lastIndexOf",
      "lowerAscii",
      "map",
      "matches",
      "none",
      "of",
      "or",
      "orValue",
      "size",
      "split",
      "startsWith",
      "string",
      "substring",
      "timestamp",
      "trim",
      "type",
      "uint",
      "upperAscii",
      "value",
    ]
  `);
});
