import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { stripVTControlCharacters } from 'node:util';
import { afterEach, expect, test } from 'vitest';
import { builtScript } from '../../helpers/script.ts';

const children: ChildProcessWithoutNullStreams[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

/** A process whose log is its stdout; it logs this many lines of 1,000 bytes, then runs the rest. */
async function logs(lines: number, rest: string): Promise<ChildProcessWithoutNullStreams> {
  const code = `
    import { openDestination } from '#server/base/telemetry/log.ts';
    const destination = openDestination(1);
    await new Promise((go) => process.stdin.once('data', go));
    for (let i = 0; i < ${lines}; i++) {
      destination.write(String(i).padEnd(999, 'x') + '\\n');
      if (i % 1000 === 0) await new Promise(setImmediate);
    }
    ${rest}`;
  const child = spawn(process.execPath, [await builtScript(code)], { stdio: 'pipe' });
  children.push(child);
  return child;
}

const flushAndEnd = `destination.flush(); console.error('flushed'); process.exit(0);`;

test('the last lines reach a reader that reads', async () => {
  const child = await logs(1000, flushAndEnd);
  child.stdin.write('go');
  expect((await text(child.stdout)).length).toBe(1_000_000);
});

test('a closed reader does not prevent the process from exiting', async () => {
  const child = await logs(1000, flushAndEnd);
  child.stdout.destroy();
  child.stdin.write('go');
  expect(await text(child.stderr)).toBe('flushed\n');
});

test('a stopped reader costs memory up to a limit, and the dropped lines are counted', async () => {
  // The process ends without a flush, which would wait for the reader.
  const child = await logs(
    200_000,
    `process.stderr.end([process.memoryUsage().rss, destination.dropped()].join(' '));`,
  );
  child.stdin.write('go');
  const [bytes, dropped] = (await text(child.stderr)).split(' ').map(Number);
  // All lines together have 200 MB. Node 24 itself is larger than Node 20 (151 MB seen).
  expect(bytes).toBeLessThan(180_000_000);
  // 16 MiB are held, and the pipe holds some more.
  expect(dropped).toBeGreaterThan(150_000);
  expect(dropped).toBeLessThan(200_000);
});

test.each([
  ['a pipe', false],
  ['a terminal', true],
])('text of requests cannot control %s', async (_, terminal) => {
  const hostile = '\x1b[2J\x1b]0;owned\x07\r\x7f\u009b31m\u202egpj';
  const code = `
    import { createLog, openDestination } from '#server/base/telemetry/log.ts';
    import { readable } from '#server/base/telemetry/readable.ts';
    const destination = openDestination(1, ${terminal ? 'readable' : 'null'});
    const log = createLog(destination, 'info', {});
    const hostile = ${JSON.stringify(hostile)};
    log('process_output', { line: hostile });
    log('request_failed', { path: hostile, err: new Error(hostile) });
    destination.write('{not a log line ' + hostile + '\\n');
    destination.flush();
    process.exit(0);`;
  const child = spawn(process.execPath, [await builtScript(code)], { stdio: 'pipe' });
  children.push(child);
  // The colours of the readable form are Weir's own.
  const reported = stripVTControlCharacters(await text(child.stdout));
  expect(reported).toContain('owned');
  // A line that is not a log line comes from the process itself; in a pipe it is unchanged.
  const lines = terminal ? reported : reported.split('\n').slice(0, 2).join('\n');
  expect(lines).not.toMatch(/[^\P{Cc}\n\t]|\p{Bidi_Control}/u);
  if (terminal) expect(reported).toContain('\\x1b[2J\\x1b]0;owned\\x07\\x0d\\x7f\\x9b31m\\u202egpj');
  else expect(JSON.parse(reported.split('\n')[0]!).line).toBe(hostile);
});
