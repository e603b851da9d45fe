/** What `weir reload` and `weir processes` say of the answers of a primary. Its own answers are tested in test/faults/releases and processes. */
import { createServer } from 'node:http';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { commands } from '../../../server/cli/commands.ts';
import type { Control, RestartReport } from '../../../server/operate/primary/messages.ts';
import { runCommands } from '../../helpers/command.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';

const NEW = { version: '1.0.1', commit: 'abc' };
const OLD = { version: '1.0.0', commit: 'abc' };
const started_at = '2030-01-01T00:00:00.000Z';

let directory: string;
/** The answer to POST, then those to each GET; the last one repeats. */
let answers: object[];
beforeEach(async () => {
  directory = temporaryDirectory();
  const server = createServer((_request, response) => {
    response.end(JSON.stringify(answers.length > 1 ? answers.shift() : answers[0]));
  });
  await new Promise<void>((listening) => server.listen(join(directory, 'weir.sock'), listening));
  onTestFinished(() => void server.close());
});

const run = (...words: string[]) => runCommands(commands, directory, { DATA_DIR: directory }, words);

function control(processes: number, restart: Partial<RestartReport> | null, build = OLD): Control {
  const report: RestartReport = {
    number: 1,
    state: 'restarted',
    changed: [],
    fixed: [],
    changeable: true,
    replaced: 0,
  };
  return {
    primary: OLD,
    wanted: processes,
    processes: Array.from({ length: processes }, (_, i) => ({ pid: i + 1, state: 'serving', build, started_at })),
    restart: restart && { ...report, ...restart },
  };
}
const requested = (number: number, restart: Partial<RestartReport> | null = null) => ({
  ...control(1, restart),
  requested: number,
});

test.each<[string, number, Partial<RestartReport>, string]>([
  ['one process', 1, { replaced: 1 }, '1 process replaced.\nNo setting has changed.\nAll run 1.0.0 (abc).\n'],
  [
    'two processes, and settings',
    2,
    { replaced: 2, changed: ['LOG_LEVEL', 'THREADS'] },
    '2 processes replaced.\nChanged settings: LOG_LEVEL, THREADS.\nAll run 1.0.0 (abc).\n',
  ],
])('weir reload says what it replaced: %s', async (_, processes, restart, out) => {
  answers = [requested(1), control(processes, restart)];
  expect(await run('reload')).toEqual({ code: 0, out, err: '' });
});

test('weir reload waits for its own restart, after a running one', async () => {
  answers = [
    requested(2, { state: 'running' }),
    control(1, { state: 'running' }),
    control(1, { number: 2, state: 'running' }),
    control(1, { number: 2, replaced: 1 }, NEW),
  ];
  const { code, out } = await run('reload');
  expect([code, answers.length]).toEqual([0, 1]);
  expect(out).toContain('The processes run 1.0.1 (abc), and the primary 1.0.0 (abc) until Weir is restarted.\n');
});

test.each<[number, Partial<RestartReport>, string]>([
  [1, { reason: 'no' }, 'no; nothing is replaced, and 1 process continues to serve'],
  [2, { reason: 'no' }, 'no; nothing is replaced, and 2 processes continue to serve'],
  [3, { reason: 'no', replaced: 1 }, 'no; 1 process replaced, 2 processes not'],
  [3, { reason: 'no', replaced: 2 }, 'no; 2 processes replaced, 1 process not'],
  [
    1,
    { reason: 'PORT has changed', changed: ['PORT', 'THREADS'], fixed: ['PORT'] },
    'PORT has changed; also changed: THREADS; nothing is replaced, and 1 process continues to serve',
  ],
])('weir reload fails with %i processes and %j', async (processes, restart, reason) => {
  answers = [requested(1), control(processes, { ...restart, state: 'failed' })];
  expect(await run('reload')).toEqual({ code: 1, out: '', err: `weir: ${reason}\n` });
  answers = [requested(1), control(processes, { ...restart, state: 'failed' })];
  const { code, out, err } = await run('reload', '--json');
  expect([code, JSON.parse(out).restart.reason, err]).toEqual([1, restart.reason, '']);
});

test.each([
  ['before the first restart', requested(1), control(1, null)],
  ['after some', requested(4, { number: 3 }), control(1, { number: 1 })],
])('weir reload ends when Weir is restarted: %s', async (_, asked, after) => {
  answers = [asked, after];
  expect(await run('reload')).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^weir: Weir was restarted before /),
  });
});

test('weir processes shows what is not serving, and says so', async () => {
  answers = [{ ...control(0, null), wanted: 1 }];
  expect((await run('processes')).out).toMatch(
    /^PROCESS +STATE +BUILD +STARTED\nNo process serves, and the log says why\. The primary runs 1\.0\.0 \(abc\)\.\n$/,
  );
});

test('weir processes N is refused with the reason of the primary', async () => {
  answers = [{ refused: 'Weir is stopping' }];
  expect(await run('processes', '3')).toEqual({ code: 1, out: '', err: 'weir: Weir is stopping\n' });
});
