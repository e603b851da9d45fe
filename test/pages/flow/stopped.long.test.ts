/**
 * “Our webhooks stopped”: each of the four common causes, staged in a running Weir, is found by a reader of texts who begins at the overview
 * and follows two links at most, with what fixes it.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { letPass } from '../../helpers/agents.ts';
import { addPerson } from '../../helpers/people.ts';
import { postgresPids } from '../../helpers/processes.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { textOf, Visitor } from '../../helpers/visitor.ts';
import { until } from '../../helpers/wait.ts';
import { asApp, kill, spawnWeir, startWeir } from '../../helpers/weir.ts';

const weir = shared(() => startWeir({ WORKERS: 1 }));
const app = shared(async () => asApp(weir));
const operator = shared(() => addPerson(app, 'operator'));

const send = async ({ path, secret }: { path: string; secret: string }) =>
  (await fetch(app.url + path, signedRequest({ secret }))).status;

/**
 * Reads the overview, then follows these links, by their texts, until a page names the cause and the fix; does so again until it is found.
 * Returns the number of links that were followed.
 */
async function clicksTo(cause: RegExp, fix: RegExp, links: readonly [RegExp?, RegExp?] = []): Promise<number> {
  const visitor = new Visitor(app, operator);
  let read: string[] = [];
  const look = async () => {
    read = [];
    await visitor.open('/');
    for (const [clicks, link] of [...links, undefined].entries()) {
      const text = textOf(visitor.html.replace(/<head>.*?<\/head>|<(p|span|div)\b[^>]* hidden>.*?<\/\1>/gs, ''));
      read.push(text);
      if (cause.test(text) && fix.test(text)) return { clicks };
      if (link !== undefined) await visitor.follow(link);
    }
    return null;
  };
  const found = await until(() => look().catch(() => null)).catch(() => null);
  if (found === null) throw new Error(`not found:\n${read.join('\n')}`);
  return found.clicks;
}

test('the sender has another secret', async () => {
  const webhook = await weir.addWebhook(undefined, { name: 'Payments' });
  expect(await send(webhook)).toBe(202);
  for (let count = 0; count < 6; count++) expect(await send({ ...webhook, secret: 'not that one' })).toBe(403);
  const clicks = await clicksTo(/wrong secret, most likely/i, /The sender’s secret .+ Use this secret/, [
    /^See why: .+ webhook Payments .+ rejected/,
    /^Paste the sender’s secret$/,
  ]);
  expect(clicks).toBe(2);
});

test('the agent is down', async () => {
  const webhook = await weir.addWebhook(undefined, { name: 'Orders' });
  const given = { name: 'orders-worker', webhook_ids: [webhook.id] };
  const { id, credential } = (await operator.api('POST', '/api/v1/agents', given)).body;
  const file = join(weir.dataDir, 'orders-worker.credential');
  await writeFile(file, credential, { mode: 0o600 });
  const agent = spawnWeir({}, { command: ['consume', app.url, '--credential-file', file, '--exec', 'cat'] });
  const waiting = async () => (await operator.api('GET', `/api/v1/deliveries?agent_id=${id}&state=pending`)).body.items;
  const done = async () => (await operator.api('GET', `/api/v1/deliveries?agent_id=${id}&state=done`)).body.items;
  expect(await send(webhook)).toBe(202);
  await until(async () => (await done()).length === 1);
  agent.child.kill('SIGKILL');
  await agent.ended;
  expect(await send(webhook)).toBe(202);
  await until(async () => (await waiting()).length === 1);
  await letPass(weir.database, 600);
  await weir.sql(`update agents set last_seen_at = now() - interval '10 minutes'`);
  const clicks = await clicksTo(/orders-worker : does not work\. stopped, seen 10 min ago/, /Start it/, [
    /^Open the agent: .+ orders-worker /,
  ]);
  expect(clicks).toBe(1);
});

test('the sender is silent', async () => {
  const webhook = await weir.addWebhook(undefined, { name: 'Stock', expect_every_seconds: 3600 });
  expect(await send(webhook)).toBe(202);
  // The process writes the time of the last event behind.
  const age = () =>
    weir.sql(
      `update webhook_state set last_event_at = now() - interval '5 hours' where webhook_id = $1 and events > 0 returning 1 as aged`,
      webhook.id,
    );
  await until(async () => (await age()).length === 1);
  await weir.sql(
    `update webhooks set created_at = now() - interval '9 hours', last_event_at = null where id = $1`,
    webhook.id,
  );
  const cause = /Webhook Stock has received no event for 5 hours \(expected: one every 1 hour\)/;
  expect(await clicksTo(cause, /Check that the sender runs and has the URL of the webhook/)).toBe(0);
});

test('the database does not answer', async () => {
  const webhook = await weir.addWebhook();
  const signal = async (name: 'SIGSTOP' | 'SIGCONT') => {
    const { postmaster, backends } = (await postgresPids(weir.dataDir))!;
    for (const pid of [postmaster, ...backends]) kill(pid, name);
  };
  await signal('SIGSTOP');
  const sent = send(webhook);
  try {
    const cause = /The database does not answer\. Since [\d: -]+UTC : \d+ requests? refused/;
    expect(await clicksTo(cause, /Run weir doctor on the machine: it names the cause and the fix\./)).toBe(0);
  } finally {
    await signal('SIGCONT');
    await sent;
  }
});
