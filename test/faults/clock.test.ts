/**
 * Clocks that jump by an hour, in the processes of Weir only (libfaketime). Postgres and this test keep the real time, as on another
 * machine.
 */
import { execFileSync } from 'node:child_process';
import { chmod, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { agentsOf, request, signIn, TestAgent } from '../helpers/agents.ts';
import type { Overrides } from '../helpers/app.ts';
import { freshDatabase } from '../helpers/postgres.ts';
import { signedRequest } from '../helpers/requests.ts';
import { missing, startSender } from '../helpers/sender.ts';
import { someKey } from '../helpers/settings.ts';
import { shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';
import { made } from '../helpers/webhooks.ts';
import { readiness, startWeir, type Weir } from '../helpers/weir.ts';

const HOUR_S = 3_600;
/** Tolerance: far less than the jump, and more than a busy machine needs between the two readings. */
const NEAR_S = 600;

let folder: string;
const fresh = shared(freshDatabase);
let weir: Weir;
let url: string;
let webhook: { path: string; secret: string };
let agent: TestAgent;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weir-clock-'));
  // The processes run as another user.
  await chmod(folder, 0o755);
  await writeFile(join(folder, 'offset'), '+0');
  const clock = {
    LD_PRELOAD: execFileSync('faketime', ['-f', '+0', 'sh', '-c', 'echo $LD_PRELOAD'], { encoding: 'utf8' }).trim(),
    FAKETIME_TIMESTAMP_FILE: join(folder, 'offset'),
    FAKETIME_CACHE_DURATION: '1',
    DONT_FAKE_MONOTONIC: '1',
    NO_FAKE_STAT: '1',
  };
  const settings = { DATABASE_URL: fresh.conninfo, SECRETS_KEY: someKey, RATE_LIMIT_AGENT_AUTH_MAX: 1_000_000 };
  weir = await startWeir({ ...settings, ...clock } as Overrides);
  url = `http://127.0.0.1:${weir.port}`;
  webhook = await weir.addWebhook();
  const created = made(await agentsOf(fresh).add({ name: 'a', webhook_ids: [webhook.path.slice('/in/'.length)] }));
  agent = new TestAgent(url, created, await signIn({ url }, created.credential));
});
afterAll(async () => {
  await weir.stop();
  await rm(folder, { recursive: true });
});

/** Sends one event; returns how far its time is ahead of the clock of Postgres, in seconds. */
async function aheadSeconds(): Promise<number> {
  const answer = await fetch(url + webhook.path, signedRequest({ secret: webhook.secret }));
  expect(answer.status).toBe(202);
  const { id } = (await answer.json()) as { id: string };
  const text = 'select extract(epoch from received_at - now())::float8 as ahead from events where id = $1';
  return (await fresh.sql<{ ahead: number }>(text, id))[0]!.ahead;
}

/** Sets the clock of both processes. */
async function setClock(offsetSeconds: number): Promise<void> {
  await writeFile(join(folder, 'next'), `${offsetSeconds < 0 ? '' : '+'}${offsetSeconds}`);
  await rename(join(folder, 'next'), join(folder, 'offset'));
  let right = 0;
  await until(async () => {
    right = Math.abs((await aheadSeconds()) - offsetSeconds) < NEAR_S ? right + 1 : 0;
    return right === 20;
  });
}

test.each([
  ['an hour ahead', HOUR_S],
  ['from there to an hour behind', -HOUR_S],
  ['back to the right time', 0],
])('a clock that jumps %s under load loses no event and stops no agent', async (_, offset) => {
  const sender = startSender({ port: weir.port, ...webhook, lanes: 8 });
  await sender.acceptMore(100);
  const token = agent.token;
  await setClock(offset);
  await sender.acceptMore(100);
  await sender.stop();
  expect([sender.refusals, sender.losses]).toEqual([[], []]);
  expect(await missing(fresh.database, sender.accepted)).toEqual([]);
  expect((await readiness(weir.port))?.status).toBe(200);

  // A session ends by the clock of Weir. The agent signs in again, as the end of a session requires.
  expect([200, 401]).toContain((await request(`${url}/api/v1/agent/me`, token)).status);
  agent.token = await signIn(agent, agent.credential);
  const { body: me } = await request(`${url}/api/v1/agent/me`, agent.token);
  expect(me.oldest_pending_seconds).toBeLessThan(NEAR_S);
  expect(await weir.metric('weir_deliveries_oldest_pending_seconds')).toBeLessThan(NEAR_S);

  // Leases are by the clock of Postgres: what was claimed can be acknowledged, and nothing is claimable twice.
  const claimed = await agent.claim();
  expect(claimed.length).toBeGreaterThan(0);
  const { done, gone } = await agent.ack(claimed.map(({ receipt }) => receipt));
  expect([done.length, gone]).toEqual([claimed.length, []]);

  // A change applies at once.
  const other = await weir.addWebhook();
  const status = async () => (await fetch(url + other.path, signedRequest({ secret: other.secret }))).status;
  expect(await status()).toBe(202);
  const id = other.path.slice('/in/'.length);
  await fresh.sql(`update webhooks set enabled = false where id = $1`, id);
  await until(async () => (await status()) === 410);
  for (const event of ['request_failed', 'crash', 'process_exited']) expect(weir.events(event)).toEqual([]);
});
