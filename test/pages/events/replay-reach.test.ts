/** Whom a replay from the page of an event reaches, and what each choice means. */
import { beforeAll, expect, test } from 'vitest';
import { addAgent, agentsOf, send, type TestAgent } from '../../helpers/agents.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(() => startPagesApp({ RATE_LIMIT_AGENT_AUTH_MAX: 1_000_000 }));
const operator = shared(() => addPerson(app, 'operator'));
let event: string;
let agents: Record<'passing' | 'picky' | 'stranger', TestAgent>;
beforeAll(async () => {
  const webhook = await app.addWebhook();
  agents = {
    passing: await addAgent(app, [webhook]),
    picky: await addAgent(app, [webhook]),
    stranger: await addAgent(app),
  };
  made(await agentsOf(app).subscribe(agents.picky.id, webhook.id, { filter: 'body.kind == "order"' }));
  event = await send(webhook, '{"kind":"other"}');
});

const replay = (fields: Record<string, string>) => operator.submit(`/events/${event}/replay`, fields);

async function pageFor(role: 'viewer' | 'operator'): Promise<string> {
  const { cookie } = await addPerson(app, role);
  return (await fetch(`${app.url}/events/${event}`, { headers: { cookie } })).text();
}

test('the agents that would not get the event are in a group of their own, and a replay to one of them ignores why', async () => {
  // The page waits a limited time for the filters, whose threads start with the first one.
  const page = await until(async () => {
    const shown = await pageFor('operator');
    return shown.includes('name="beyond"') ? null : shown;
  });
  expect([...page.matchAll(/<li class="(?:good)?"><b>([^<]*)</g)].map(([, step]) => step)).toContain('Received');
  const [, group] = /<optgroup label="Beyond subscriptions and filters">(.*)<\/optgroup>/.exec(page)!;
  const optionsOf = (html: string) =>
    [...html.matchAll(/<option value="([^"]+)">[^<(]*(?:\(([^)]*)\))?<\/option>/g)].map(([, value, note]) => [
      value,
      note,
    ]);
  const beyond = [
    [`beyond:${agents.picky.id}`, 'its filter excludes it'],
    [`beyond:${agents.stranger.id}`, 'not subscribed'],
  ];
  expect(optionsOf(group!)).toEqual(expect.arrayContaining(beyond));
  expect(optionsOf(page.replace(group!, ''))).toEqual([[agents.passing.id, undefined]]);
  for (const [agent_id] of beyond)
    expect(await operator.page((await replay({ agent_id: agent_id! })).location!)).toContain(
      'Replayed: pending again.',
    );
  expect((await replay({ agent_id: agents.stranger.id })).status).toBe(422);
});

test('a viewer cannot replay', async () => {
  expect(await pageFor('viewer')).not.toContain('/replay"');
});
