import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { confirmedCall } from '../../../server/cli/manage/call.ts';

/** Runs calls of one command with this answer; returns the operations that ran, what was asked and why it ended. */
async function calling(answer: string, { terminal = true, yes = false, operations = ['deleteWebhook'] } = {}) {
  const streams = { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() };
  const io = { environment: {}, directory: '', ...streams };
  if (terminal) for (const stream of Object.values(streams)) Object.assign(stream, { isTTY: true });
  streams.stdin.end(answer);
  const ran: string[] = [];
  const call = confirmedCall(io, async (name) => void ran.push(name) as never, 'orders\u001b[31m', yes);
  let failure: string | null = null;
  for (const operation of operations)
    await call(operation as never, { id: 'x' }).catch((error: Error) => (failure = error.message));
  return { ran, asked: streams.stderr.read()?.toString() ?? '', failure };
}

const refused = 'nothing was changed; answer y, or give --yes';

test.each([
  ['y\n', null],
  ['Yes\n', null],
  ['\n', refused],
  ['no\n', refused],
  ['yesterday\n', refused],
  ['', refused],
])('on a terminal the answer %j decides', async (answer, failure) => {
  const done = await calling(answer);
  expect(done).toEqual({ ran: failure === null ? ['deleteWebhook'] : [], asked: expect.any(String), failure });
  expect(done.asked).toMatch(/^orders\S+: Requests to its URL then get a 404 response. Continue\? \[y\/N\] $/);
  expect(done.asked).not.toContain('\u001b');
});

test('it is asked once for all calls of a command, and not about other operations', async () => {
  const operations = ['showWebhook', 'drainCell', 'drainCell'];
  const { ran, asked } = await calling('y\n', { operations });
  expect([ran, asked.match(/Continue/g)?.length]).toEqual([operations, 1]);
});

test.each([{ terminal: false }, { yes: true }])('nothing is asked with %j', async (given) => {
  expect(await calling('', given)).toEqual({ ran: ['deleteWebhook'], asked: '', failure: null });
});
