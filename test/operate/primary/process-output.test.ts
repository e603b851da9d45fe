/** Output of a process besides its log, as log lines of the primary. */
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { forwardOutput } from '../../../server/operate/primary/forks.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

function forwarded() {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const written: unknown[] = [];
  const log = Object.assign((_event: string, fields?: Record<string, unknown>) => void written.push(fields?.line), {
    enabled: () => true,
    dropped: () => 0,
  });
  forwardOutput({ pid: 1, stdout, stderr }, { destination: { write: (line) => void written.push(line) }, log });
  return { stdout, stderr, written };
}

test('consecutive lines are one log line', async () => {
  const { stderr, written } = forwarded();
  stderr.write('ERROR:  one\nDETAIL:  two\nCONTEXT:');
  await nextTurn();
  stderr.write('  three\n\nLINE 1: four\n');
  await nextTurn();
  expect(written).toEqual([]);
  vi.advanceTimersByTime(100);
  expect(written).toEqual(['ERROR:  one\nDETAIL:  two\nCONTEXT:  three\nLINE 1: four']);
  stderr.write('later\n');
  await nextTurn();
  vi.advanceTimersByTime(100);
  expect(written.slice(1)).toEqual(['later']);
});

test('a log line ends the lines before it, and the end flushes the rest', async () => {
  const { stdout, written } = forwarded();
  stdout.write('one\n{"event":"x"}\ntwo\nthree');
  const ended = once(stdout, 'end');
  stdout.end();
  await ended;
  expect(written).toEqual(['one', '{"event":"x"}\n', 'two\nthree']);
});

test('a log line without its end, of a process that was killed while it wrote, is not passed on as one', async () => {
  const { stdout, written } = forwarded();
  stdout.write('{"event":"x"}\n{"event":"y","ti');
  const ended = once(stdout, 'end');
  stdout.end();
  await ended;
  expect(written).toEqual(['{"event":"x"}\n', '{"event":"y","ti']);
});

test('a process without streams, which could not be started, has no output', () => {
  const log = Object.assign(() => expect.fail('nothing is logged'), { enabled: () => true, dropped: () => 0 });
  forwardOutput({}, { destination: { write: () => expect.fail('nothing is written') }, log });
});

test('at most 100 lines are combined', async () => {
  const { stderr, written } = forwarded();
  stderr.write('a line\n'.repeat(101));
  await nextTurn();
  vi.advanceTimersByTime(100);
  expect(written.map((line) => String(line).split('\n').length)).toEqual([100, 1]);
});

test('a line without end is cut, also one that begins like a log line', async () => {
  const { stdout, written } = forwarded();
  stdout.write(`{${'x'.repeat(1_048_576)}`);
  await nextTurn();
  stdout.write('the rest\n{"event":"x"}\n');
  await nextTurn();
  expect(written).toEqual([`{${'x'.repeat(1_048_576)}\nthe rest`, '{"event":"x"}\n']);
});
