/** `weir consume` with a real Weir: real port, real Postgres, and the command in this process. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { agentsOf } from '../../helpers/agents.ts';
import { startTestApp } from '../../helpers/app.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';
import { startConsume } from './command.ts';

const weir = shared(startTestApp);
const webhook = shared(() => weir.addWebhook());
const directory = temporaryDirectory();

beforeAll(async () => {
  const { credential } = made(await agentsOf(weir).add({ name: 'test', webhook_ids: [webhook.id] }));
  await writeFile(join(directory, 'credential'), credential, { mode: 0o600 });
});

function consume(args: string[]) {
  return startConsume([weir.url, '--credential-file', 'credential', ...args], { directory });
}

async function send(body: string): Promise<void> {
  const answer = await fetch(webhook.url, signedRequest({ secret: webhook.secret, body }));
  expect(answer.status).toBe(202);
}

async function states(): Promise<Record<string, number>> {
  const rows = await weir.database.query<{ state: string; count: number }>({
    text: 'select state, count(*)::int as count from deliveries group by state',
  });
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]));
}

test('every accepted event is printed and acknowledged once, including events during the long poll', async () => {
  await Promise.all(Array.from({ length: 20 }, (_, number) => send(`{"number":${number}}`)));
  const { ended, out } = consume(['--max', '30', '--concurrency', '7']);
  await until(() => out().split('\n').length > 20);
  await Promise.all(Array.from({ length: 10 }, (_, number) => send(`{"number":${number + 20}}`)));
  expect((await ended).exitCode).toBe(0);
  const numbers = out()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(JSON.parse(line).event.body).number);
  expect(numbers.sort((a, b) => a - b)).toEqual(Array.from({ length: 30 }, (_, number) => number));
  expect(await states()).toEqual({ done: 30 });
});

test('TERM cancels the long poll: later events remain for the next agent', async () => {
  const { ended } = consume([]);
  await until(async () => (await weir.metric('weir_claims_waiting')) > 0);
  process.emit('SIGTERM', 'SIGTERM');
  expect((await ended).exitCode).toBe(0);
  await send('later');
  expect((await consume(['--once']).ended).out).toContain('"body":"later"');
});
