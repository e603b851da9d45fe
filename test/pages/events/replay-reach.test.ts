/** Whom a replay from the page of an event reaches: what its box adds, and what each choice means. */
import { beforeAll, expect, test } from 'vitest';
import { addAgent, agentsOf, send, startAgentApp, type TestAgent } from '../../helpers/agents.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(startAgentApp);
let event: string;
let agents: Record<'passing' | 'picky' | 'stranger', TestAgent>;
beforeAll(async () => {
  const webhook = await app.addWebhook();
  agents = {
    passing: await addAgent(app, [webhook]),
    picky: await addAgent(app, [webhook]),
    stranger: await addAgent(app),
  };
  made(await agentsOf(app).setFilter(agents.picky.id, webhook.id, 'body.kind == "order"'));
  event = await send(webhook, '{"kind":"other"}');
});

async function pageFor(role: 'viewer' | 'operator'): Promise<string> {
  const { cookie } = await addPerson(app, role);
  return (await fetch(`${app.url}/events/${event}`, { headers: { cookie } })).text();
}

test('the box says for how many agents a filter excludes the event, and the list why each would not get it', async () => {
  // The page waits a limited time for the filters, whose threads start with the first one.
  const page = await until(async () => {
    const shown = await pageFor('operator');
    return shown.includes('Ignore subscriptions and filters</label>') ? null : shown;
  });
  expect(page).toContain('Ignore subscriptions and filters: a filter excludes the event for 1 agent</label>');
  const notes = Object.fromEntries(
    [...page.matchAll(/<option value="([^"]+)">[^<(]*(?:\(([^)]*)\))?<\/option>/g)].map(([, id, note]) => [id, note]),
  );
  expect(notes).toEqual({
    [agents.passing.id]: undefined,
    [agents.picky.id]: 'its filter excludes it',
    [agents.stranger.id]: 'not subscribed',
  });
});

test('a viewer, who cannot replay, sees no box', async () => {
  expect(await pageFor('viewer')).not.toContain('name="beyond"');
});
