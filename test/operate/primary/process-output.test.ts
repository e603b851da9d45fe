/** Output of a process besides its log, as log lines of the primary. */
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { forwardOutput } from '../../../server/operate/primary/process-output.ts';

function forwarded() {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const written: unknown[] = [];
  const log = ((_event: string, fields?: Record<string, unknown>) => void written.push(fields?.line)) as never;
  forwardOutput({ pid: 1, stdout, stderr }, { destination: { write: (line) => void written.push(line) }, log });
  return { stdout, stderr, written };
}

test('lines that arrive together are one log line, and the rest of a line comes with the next', async () => {
  const { stderr, written } = forwarded();
  stderr.write('ERROR:  one\nDETAIL:  two\nCONTEXT:');
  await nextTurn();
  stderr.write('  three\n\nLINE 1: four\n');
  await nextTurn();
  expect(written).toEqual(['ERROR:  one\nDETAIL:  two', 'CONTEXT:  three\nLINE 1: four']);
});

test('a log line ends the lines before it, and the end flushes the rest', async () => {
  const { stdout, written } = forwarded();
  stdout.write('one\n{"event":"x"}\ntwo\nthree');
  const ended = once(stdout, 'end');
  stdout.end();
  await ended;
  expect(written).toEqual(['one', '{"event":"x"}\n', 'two', 'three']);
});

test('a line without end is cut, also one that begins like a log line', async () => {
  const { stdout, written } = forwarded();
  stdout.write(`{${'x'.repeat(1_048_576)}`);
  await nextTurn();
  stdout.write('the rest\n{"event":"x"}\n');
  await nextTurn();
  expect(written).toEqual([`{${'x'.repeat(1_048_576)}`, 'the rest', '{"event":"x"}\n']);
});
