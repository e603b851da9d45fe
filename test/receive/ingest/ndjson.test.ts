import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { jsonFault } from '../../../server/base/http/json-text.ts';
import { FAULTS_MAX, type LinesOutcome, readLines } from '../../../server/receive/ingest/batch.ts';
import { fuzzRuns } from '../../helpers/fuzz.ts';

/** Reads to the end; counts the pauses. */
function read(body: Uint8Array | string, linesMax = 1000): { outcome: LinesOutcome<ArrayBufferLike>; pauses: number } {
  const reading = readLines<ArrayBufferLike>(Buffer.from(body as string), linesMax);
  for (let pauses = 0; ; pauses++) {
    const step = reading.next();
    if (step.done) return { outcome: step.value, pauses };
  }
}

function linesOf(body: Uint8Array | string): [number, string][] {
  const { outcome } = read(body);
  if (outcome.kind !== 'lines') throw new Error(JSON.stringify(outcome));
  return outcome.lines.map(({ number, bytes }) => [number, Buffer.from(bytes).toString()]);
}

const decoder = new TextDecoder('utf-8', { fatal: true });
function parses(bytes: Uint8Array): boolean {
  try {
    JSON.parse(decoder.decode(bytes));
    return true;
  } catch {
    return false;
  }
}

describe('the lines of a body', () => {
  test.each<[string, string, [number, string][]]>([
    [
      'end with LF',
      '{}\n[]\n',
      [
        [1, '{}'],
        [2, '[]'],
      ],
    ],
    [
      'end with CRLF',
      '{}\r\n[]\r\n',
      [
        [1, '{}'],
        [2, '[]'],
      ],
    ],
    [
      'end with the body',
      '1\n2',
      [
        [1, '1'],
        [2, '2'],
      ],
    ],
    [
      'count where they are empty, and are skipped',
      '\n\r\n1\n\n\r\n2\n\n',
      [
        [3, '1'],
        [6, '2'],
      ],
    ],
    ['keep the space around their JSON', ' {"a" : 1}\t\n', [[1, ' {"a" : 1}\t']]],
    ['may begin with a byte order mark', '\ufeff{}', [[1, '\ufeff{}']]],
    ['keep a CR that belongs to no line end', '1\r', [[1, '1\r']]],
    [
      'may be any JSON text',
      'null\n"x"\n-0.5e+3',
      [
        [1, 'null'],
        [2, '"x"'],
        [3, '-0.5e+3'],
      ],
    ],
  ])('%s', (_what, body, lines) => {
    expect(linesOf(body)).toEqual(lines);
  });

  test.each(['', '\n', '\r\n\r\n', '\n'.repeat(1000)])('are absent in %j', (body) => {
    expect(read(body).outcome).toEqual({ kind: 'empty' });
  });

  test('can be as many as the limit, and no more', () => {
    expect(read('1\n\n2\n3\n', 3).outcome.kind).toBe('lines');
    expect(read('1\n\n2\n3\n4', 3).outcome).toEqual({ kind: 'too_many' });
  });

  test('that are not JSON are reported by number, up to a limit', () => {
    expect(read('{}\n\n{"a":}\nnul\n{"a":"\n1').outcome).toEqual({
      kind: 'faults',
      faults: [
        { line: 3, detail: 'unexpected byte at position 6' },
        { line: 4, detail: 'unexpected end of input' },
        { line: 5, detail: 'unexpected end of input' },
      ],
    });
    const { outcome } = read('x\n'.repeat(500));
    expect(outcome.kind === 'faults' && outcome.faults.map(({ line }) => line)).toEqual(
      Array.from({ length: FAULTS_MAX }, (_, i) => i + 1),
    );
  });

  test('of a large body are read with pauses', () => {
    const line = `${JSON.stringify({ text: 'x'.repeat(1000) })}\n`;
    expect(read(line.repeat(3000), 3000).pauses).toBeGreaterThan(3);
    expect(read(line.repeat(100)).pauses).toBe(0);
    expect(read('\n'.repeat(2_000_000)).pauses).toBeGreaterThan(2);
  });

  test('equal the result of splitting, for any body', () => {
    const piece = fc.oneof(fc.constantFrom('\n', '\r\n', '\r', '\n\n', ' '), fc.json(), fc.string({ unit: 'binary' }));
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        const body = Buffer.from(pieces.join(''));
        const split = body.toString('latin1').split('\n');
        const expected = split.map((text, i) => (i < split.length - 1 ? text.replace(/\r$/, '') : text));
        const numbered = expected.flatMap((text, i) => (text === '' ? [] : [{ text: Buffer.from(text, 'latin1'), i }]));
        const { outcome } = read(body);
        const bad = numbered.filter(({ text }) => !parses(text)).map(({ i }) => i + 1);
        if (numbered.length === 0) expect(outcome.kind).toBe('empty');
        else if (bad.length > 0)
          expect(outcome.kind === 'faults' && outcome.faults.map(({ line }) => line)).toEqual(bad);
        else
          expect(outcome.kind === 'lines' && outcome.lines.map(({ bytes }) => Buffer.from(bytes))).toEqual(
            numbered.map(({ text }) => text),
          );
      }),
      { numRuns: fuzzRuns(100) },
    );
  });
});

describe('a JSON text', () => {
  test.each([
    '',
    ' ',
    '01',
    '-',
    '1.',
    '.5',
    '1e',
    '1e+',
    '+1',
    '0x1',
    '[1,]',
    '[,1]',
    '[1 2]',
    '{"a":1,}',
    '{a:1}',
    "{'a':1}",
    '{"a" 1}',
    '{"a":1]',
    '[1}',
    ']',
    '1 2',
    'tru',
    'truee',
    'NaN',
    'undefined',
    '"\t"',
    '"\\x"',
    '"\\u12g4"',
    '"\\u123',
    '"a',
    '\ufeff\ufeff1',
    '{"a"}',
  ])('is not %j', (text) => {
    expect(parses(Buffer.from(text))).toBe(false);
    expect(jsonFault(Buffer.from(text))).not.toBeNull();
  });

  test.each([[[0xff]], [[0x22, 0xc3, 0x28, 0x22]], [[0x22, 0xed, 0xa0, 0x80, 0x22]], [[0x22, 0xc3]]])(
    'is not invalid UTF-8: %j',
    (bytes) => {
      expect(jsonFault(Uint8Array.from(bytes))).toBe('it is not valid UTF-8');
    },
  );

  test('can be nested to any depth', () => {
    const depth = 2_000_000;
    const arrays = Buffer.from('['.repeat(depth) + ']'.repeat(depth));
    expect(jsonFault(arrays)).toBeNull();
    expect(jsonFault(arrays.subarray(0, -1))).toBe('unexpected end of input');
    expect(jsonFault(Buffer.from(`${'[{"a":'.repeat(depth / 10)}1${'}]'.repeat(depth / 10)}`))).toBeNull();
    expect(jsonFault(Buffer.from(`${'[{"a":'.repeat(9)}1${'}]'.repeat(8)}]`))).not.toBeNull();
  });

  test('is valid exactly when JSON.parse accepts it', () => {
    const mutated = fc
      .tuple(fc.json(), fc.nat(), fc.constantFrom(...'{}[]",:\\0-.eEtfnu \n\u0001é'), fc.integer({ min: 0, max: 2 }))
      .map(([text, place, given, cut]) => {
        const at = place % (text.length + 1);
        return text.slice(0, at) + given + text.slice(at + cut);
      });
    const grammar = fc.array(fc.constantFrom(...'{}[]",:1 \\', '"a"', '"a":', 'true', '-0.5e1', '\\u00e9'), {
      maxLength: 12,
    });
    const bytes = fc.oneof(
      fc
        .oneof(
          fc.json(),
          mutated,
          grammar.map((parts) => parts.join('')),
        )
        .map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 12 }).map((noise) => Buffer.concat([Buffer.from('"'), noise, Buffer.from('"')])),
    );
    fc.assert(
      fc.property(bytes, (text) => {
        expect(jsonFault(text) === null).toBe(parses(text));
      }),
      { numRuns: fuzzRuns(2_000) },
    );
  });
});
