/** Is it flowing? The lamps at the top of a webhook and of an agent: the first that does not work is open, with cause, time and fix. */
import { expect, test } from 'vitest';
import { agentState } from '../../../server/pages/flow/state.ts';
import { addHistory } from '../../../server/store/queries/webhooks/history.ts';
import { addAgent, letPass, send, startAgentApp } from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(startAgentApp);
const operator = shared(() => addPerson(app, 'operator'));
const HOUR_MS = 3_600_000;

/** The texts of the section, and the text of the lamp that is open; '' for none. */
async function flowOf(path: string) {
  const page = await operator.page(path);
  const section = page.split('id="flow"')[1]!.split('</section>')[0]!;
  const text = (html: string) =>
    html
      .replace(/<form.*?<\/form>/gs, (form) => form.replace(/<input[^>]*>/g, ''))
      .replace(/<[^>]*>/g, ' ')
      .replace(/\s+/g, ' ')
      .trim();
  const open = section.split('<details').find((one) => /^[^>]* open>/.test(one)) ?? '';
  return {
    text: text(section.slice(section.indexOf('>') + 1)),
    open: text(open.slice(open.indexOf('>') + 1).split('</details>')[0]!),
    section,
  };
}
const lastWeek = (webhook: TestWebhook, accepted: number) =>
  addHistory(app.database, [{ webhookId: webhook.id, minuteMs: Date.now() - 7 * 24 * HOUR_MS, accepted }]);

test('what flows is green, against the same hour of last week, on both pages', async () => {
  const webhook = await app.addWebhook({ name: 'Shop' });
  const agent = await addAgent(app, [webhook]);
  await lastWeek(webhook, 4);
  await send(webhook);
  const [delivery] = await agent.claim();
  await agent.ack([delivery!.receipt]);
  const shop = () => flowOf(`/webhooks/${webhook.id}`);
  await until(async () => (await shop()).text.includes('1 request in the last hour, 4 in the same hour of last week'));
  await until(async () => (await shop()).text.includes('idle, seen'));
  expect(await shop()).toMatchObject({
    open: '',
    text: expect.stringMatching(/^It is flowing Sender.*None refused.*1 accepted/),
  });
  expect((await flowOf(`/agents/${agent.id}`)).text).toMatch(/^It is flowing Sender.*1 request in the last hour/);
});

test.each([
  [
    'a silent sender',
    (webhook: TestWebhook) => lastWeek(webhook, 200),
    /but: Sender /,
    /No request came in the last hour\. Check that the sender runs.*What the sender needs/,
  ],
  [
    'refused signatures',
    async (webhook: TestWebhook) => {
      for (let i = 0; i < 5; i++) await fetch(webhook.url, { method: 'POST', body: 'x' });
    },
    /not flowing: Verified /,
    /5 requests to webhook .+ were rejected in the last hour: .*See why/,
  ],
  [
    'a first request that was refused',
    (webhook: TestWebhook) => fetch(webhook.url, { method: 'POST', body: 'x' }),
    /not flowing: Verified /,
    /No request to webhook .+ was accepted in the last hour.*See why and fix it/,
  ],
  [
    'a disabled webhook',
    (webhook: TestWebhook) => app.webhooks.update(webhook.id, { enabled: false }),
    /not flowing: Sender /,
    /is disabled: requests get a 410 response and are not stored\..*Enable/,
  ],
] as const)('%s is named, with its fix', async (_what, cause, verdict, open) => {
  const webhook = await app.addWebhook();
  await cause(webhook);
  await until(async () => open.test((await flowOf(`/webhooks/${webhook.id}`)).open), { timeoutMs: 20_000 });
  expect((await flowOf(`/webhooks/${webhook.id}`)).text).toMatch(verdict);
});

test('what is wrong is named, however many newer issues others have', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  await fetch(webhook.url, { method: 'POST', body: 'x' });
  // Found by other machines alone, so that this one does not resolve them.
  await app.sql(
    `insert into issues (id, kind, subject_id, first_at, last_at, count, facts)
     select ('ffffffff-ffff-7fff-8fff-' || lpad(n::text, 12, '0'))::uuid, 'process_died', 'machine ' || n, now(), now() + interval '1 hour', 1, '{"name":"other"}'
     from generate_series(1, 201) n`,
  );
  for (const path of [`/webhooks/${webhook.id}`, `/agents/${agent.id}`])
    await until(async () => /No request to webhook .+ was accepted/.test((await flowOf(path)).open), {
      timeoutMs: 20_000,
    });
  await app.sql(`delete from issues where kind = 'process_died'`);
});

test('an agent that is down is named on the pages of its webhook and its own, and a paused one is resumed there', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  await send(webhook);
  await letPass(app.database, 600);
  const late = /The oldest pending delivery of agent .+ has waited for 10 minutes.*Since .*Start it, or more instances/;
  for (const path of [`/webhooks/${webhook.id}`, `/agents/${agent.id}`])
    expect((await flowOf(path)).open).toMatch(late);
  const paused = await operator.submit(`/agents/${agent.id}/pause`, { paused: 'true' });
  expect(paused.status).toBe(303);
  for (const path of [`/webhooks/${webhook.id}`, `/agents/${agent.id}`])
    expect((await flowOf(path)).open).toMatch(/The agent is paused: its deliveries wait\. Since .*Resume/);
  await operator.submit(`/agents/${agent.id}/pause`, { paused: 'false' });
  expect((await flowOf(`/agents/${agent.id}`)).open).toMatch(late);
});

const NOW_MS = Date.UTC(2026, 0, 31, 12, 0, 0);
const ago = (seconds: number) => new Date(NOW_MS - seconds * 1_000).toISOString();
const activity = {
  agent_id: '',
  last_seen_from: null,
  previous_credential_used_at: null,
  filters: [],
  dead: 0,
  working: false,
  paused: false,
  paused_at: null,
};

test.each([
  ['never seen', '', null, null, false],
  ['never seen', 'bad', null, 301, false],
  ['idle', 'good', 180, null, false],
  ['working', 'good', 60, null, true],
  ['stopped', 'warn', 181, null, false],
  ['stopped', 'bad', 181, 10, true],
])('an agent is %s (%s): seen %s s ago, a delivery waits for %s s, working %s', (word, tone, seen, waits, working) => {
  const does = {
    ...activity,
    working,
    last_seen_at: seen === null ? null : ago(seen),
    waiting_since: waits === null ? null : ago(waits),
  };
  expect(agentState(does, NOW_MS)).toMatchObject({ word, tone, isLate: (waits ?? 0) > 300 });
});

test('a paused agent is paused, whatever waits', () => {
  const does = { ...activity, last_seen_at: ago(999), waiting_since: ago(999), paused: true, paused_at: ago(60) };
  expect(agentState(does, NOW_MS)).toMatchObject({ word: 'paused', tone: 'warn', isLate: false });
});

test.each([
  ['failing', 'bad', '60/0/3'],
  ['failing', 'bad', '960/0/3 60/0/0'],
  ['working', 'good', '960/1/0 60/0/3'],
  ['working', 'good', '1800/0/3 60/0/0'],
  ['failing 10 %', 'warn', '60/18/2'],
  ['working', 'good', '60/17/2'],
  ['working', 'good', '60/91/9'],
  ['failing 27 %', 'warn', '3599/0/27 60/73/0'],
  ['working', 'good', '3600/0/27 60/73/0'],
])('an agent is %s (%s) after quarters that began s ago, acknowledged and failed: %s', (word, tone, counts) => {
  const quarters = counts.split(' ').map((quarter) => {
    const [seconds, acknowledged, failed] = quarter.split('/').map(Number) as [number, number, number];
    return { at: ago(seconds), acknowledged, failed };
  });
  const does = { ...activity, working: true, last_seen_at: ago(60), waiting_since: null, quarters };
  const state = agentState(does, NOW_MS);
  expect(state).toMatchObject({ word, tone });
  const [text] = state.cause ?? [''];
  const percent = /\d+ %/.exec(word)?.[0];
  expect(text).toBe(
    word === 'failing'
      ? 'Every attempt of the last minutes failed.'
      : percent === undefined
        ? ''
        : `${percent} of the attempts in the last hour failed.`,
  );
});

test.each([
  ['dead letters', 361, 1],
  ['working', 361, 0],
  ['working', 0, 1],
])('an agent is %s with %i dead letters and %i failed attempts in the hour', (word, dead, failed) => {
  const quarters = [{ at: ago(60), acknowledged: 100, failed }];
  const does = { ...activity, working: true, dead, last_seen_at: ago(60), waiting_since: null, quarters };
  expect(agentState(does, NOW_MS).word).toBe(word);
});
