/**
 * Random expressions on hostile bodies, in the thread as claims evaluate them: the process lives, each event has a
 * verdict, and no task holds the thread longer than its limits. FUZZ_FACTOR sets how many, FUZZ_SEED (default 1) which.
 */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FilterJudge } from '../../../server/deliver/claims/judge.ts';
import { type CandidateEvent, verdicts } from '../../../server/model/filters/evaluate.ts';
import { compileFilter, FILTER_CHARACTERS_MAX } from '../../../server/model/filters/expression.ts';
import { fuzzRuns, type Numbers, numbers, oneOf } from '../../helpers/fuzz.ts';

const RUNS = fuzzRuns(150);
const SEED = Number(process.env.FUZZ_SEED ?? 1);
const EVENT_TIMEOUT_MS = 50;
/** No task is given up, so a thread that hangs shows as a test that does not end. */
const THREAD_TIMEOUT_MS = 600_000;
/** The runs end after this time, wherever they are: a busy machine tries fewer. */
const BUDGET_MS = 60_000;

const workerFile = fileURLToPath(new URL('../../../dist/workers/filter.js', import.meta.url));
let judge: FilterJudge;
beforeAll(() => {
  judge = new FilterJudge(workerFile, EVENT_TIMEOUT_MS, { threadTimeoutMs: THREAD_TIMEOUT_MS });
});
afterAll(() => judge.close());

type Kind = 'text' | 'bytes' | 'list' | 'map' | 'int' | 'bool';

/** For each kind: values, and expressions that make one from other values (t: text, y: bytes, l: list, m: map, i: int, b: bool, $: bound variable). */
const leaves: Record<Kind, readonly string[]> = {
  text: [
    'webhook',
    'body.text',
    'body.needle',
    'body.texts[0]',
    'headers["host"]',
    '"\u0390"',
    '"\u{1f600}"',
    '"(a+)+$"',
    '""',
  ],
  bytes: ['b"ab"', 'bytes(body.text)', 'b""'],
  list: ['body.texts', 'body.numbers', '[]', '[1, 2]', 'body.deep'],
  map: ['body', 'headers', '{}', '{"a": 1}', 'body.keys', 'body.__proto__', 'body.constructor'],
  int: ['1', 'bytes', '-9223372036854775808', '9223372036854775807', 'int(1.7e308)', 'duration("1h").getSeconds()'],
  bool: ['true', 'false', 'body.flag'],
};
const makers: Record<Kind, readonly string[]> = {
  text: [
    '(t + t)',
    'l.join()',
    'l.join(t)',
    't.upperAscii()',
    't.lowerAscii()',
    'y.hex()',
    'y.base64()',
    'string(y)',
    't.substring(0, i)',
    'string(i)',
    '(b ? t : t)',
    't.trim()',
    'string(duration(t))',
  ],
  bytes: ['(y + y)', 'bytes(t)', 'bytes(y.hex())'],
  list: [
    '(l + l)',
    '[t, l, m, y]',
    't.split(t)',
    't.split("")',
    't.split(t, i)',
    'l.map(x, t)',
    'l.map(x, [x, x])',
    'l.map(x, l)',
    'l.filter(x, b)',
    'm.map(x, x)',
    '[t, t].map(x, x + x)',
  ],
  map: ['{"a": l}', '{t: t}', '{1: m}', '{i: l, t: y}', 'y.json()', '{"constructor": t, "__proto__": m}'],
  int: [
    '(i + i)',
    '(i * i)',
    '-i',
    'size(t)',
    'size(l)',
    'size(m)',
    't.indexOf(t)',
    't.lastIndexOf(t)',
    'int(t)',
    'timestamp(i).getFullYear("Europe/Berlin")',
    '(timestamp(i) + duration(t)).getDayOfYear()',
  ],
  bool: [
    't.matches(t)',
    't.contains(t)',
    '(t in l)',
    '(t in m)',
    '(l == l)',
    '(m == m)',
    '(t == t)',
    '(i < i)',
    'l.exists(x, b)',
    'l.all(x, l.exists(z, x == z))',
    'l.exists_one(x, b)',
    '(b && b)',
    '(b || b)',
    'has(body.text)',
    'optional.of(l).hasValue()',
    'body.?text.hasValue()',
  ],
};
const kindOf: Record<string, Kind> = { t: 'text', y: 'bytes', l: 'list', m: 'map', i: 'int', b: 'bool' };

/** The variable is bound repeatedly to a value made from it, because growing values are the purpose of this test. */
const growing = ['text', 'bytes', 'list'] as const;
const doublers: Partial<Record<Kind, readonly string[]>> = {
  text: ['($ + $)', '[$, $].join()', '$.split("a").join("aa")', '($ + $.upperAscii())'],
  bytes: ['($ + $)', 'bytes($.hex())', 'bytes(string($) + string($))'],
  list: ['($ + $)', '[$, $]', '($ + $.map(x, x))', '$.map(x, $)'],
};
const ends: Partial<Record<Kind, readonly string[]>> = {
  text: [
    '$.contains("b")',
    '$.matches("b$")',
    '$.split("") == []',
    '$.upperAscii() == ""',
    'bytes($) == b""',
    '[1, 2].exists(x, $ == "")',
  ],
  bytes: ['string($) == ""', '$.base64() == ""', '$.hex() == ""', 'size($) == 0'],
  list: ['$ == [1]', 'size($.map(x, [x, x])) == 0', '$.all(x, x == 1)', '$.join("") == ""'],
};
/** The start values, and the number of doublings that reach the limit of V8: 400 MB of text, 80 million items. */
const seeds: Partial<Record<Kind, readonly (readonly [string, number])[]>> = {
  text: [
    ['webhook', 26],
    ['body.text', 10],
  ],
  bytes: [
    ['b"abcd"', 26],
    ['bytes(body.text)', 10],
  ],
  list: [
    ['[1, 2, 3, 4]', 24],
    ['body.numbers', 12],
  ],
};

function growthOf(next: Numbers): string {
  const kind = oneOf(next, growing);
  const step = oneOf(next, doublers[kind]!);
  const [seed, most] = oneOf(next, seeds[kind]!);
  const levels = most - next(3);
  let text = oneOf(next, ends[kind]!).replaceAll('$', `v${levels}`);
  for (let i = levels; i > 0; i--) text = `cel.bind(v${i}, ${step.replaceAll('$', `v${i - 1}`)}, ${text})`;
  return `cel.bind(v0, ${seed}, ${text})`;
}

function expressionOf(next: Numbers, kind: Kind, depth: number): string {
  if (depth <= 0) return oneOf(next, leaves[kind]);
  return oneOf(next, makers[kind]).replaceAll(/\b[tylmib]\b(?![("])/g, (one) =>
    expressionOf(next, kindOf[one]!, depth - 1 - next(2)),
  );
}

const bodies: readonly unknown[] = [
  {},
  {
    text: `${'a'.repeat(60)}b`,
    needle: 'a',
    texts: ['a', 'b'],
    numbers: [1, 2.5, -0],
    deep: [[[[[[1]]]]]],
    keys: { a: 1 },
    flag: true,
  },
  {
    text: 'a'.repeat(300_000),
    needle: `${'a'.repeat(2_000)}b${'a'.repeat(2_000)}`,
    texts: Array.from({ length: 20_000 }, () => 'abc'),
    numbers: Array.from({ length: 20_000 }, (_, place) => place),
    keys: Object.fromEntries(Array.from({ length: 20_000 }, (_, place) => [`k${place}`, place])),
    deep: JSON.parse(`${'['.repeat(3_000)}${']'.repeat(3_000)}`),
  },
  JSON.parse(
    '{"text":"\\ud800\\u0000\\u0390","needle":"","texts":["\\u2028"],"numbers":[1e308,-1e308],"__proto__":{"a":1},"constructor":{"b":2},"keys":{"toString":1}}',
  ),
];
const events = bodies.map(
  (body): CandidateEvent => ({
    filter: 0,
    webhook: 'orders',
    headers: Buffer.from('host: example.org\nconstructor: a\n__proto__: b'),
    contentType: null,
    eventType: null,
    bytes: 3,
    body: Buffer.from(JSON.stringify(body)),
  }),
);

test(`random expressions, seed ${SEED}`, async () => {
  const filters = Array.from({ length: RUNS }, (_, run) => {
    const next = numbers(SEED * 100_003 + run);
    return next(2) === 0 ? growthOf(next) : expressionOf(next, 'bool', 1 + next(4));
  }).filter((text) => text.length <= FILTER_CHARACTERS_MAX && compileFilter(text).kind === 'filter');
  expect(filters.length).toBeGreaterThan(RUNS / 3);
  const endMs = performance.now() + BUDGET_MS;
  for (const text of filters) {
    if (performance.now() > endMs) break;
    for (const event of events) {
      const { verdicts: given, failures } = await judge.judge([text], [event]);
      expect(given, text).not.toContain(verdicts.undecided);
      // A limit of Weir or an error of the expression, never the end of the thread.
      for (const { reason } of failures) expect(reason, text).not.toMatch(/^the thread/);
    }
  }
});
