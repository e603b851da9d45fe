/** The overview when parts of it cannot be read. */
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { addHistory } from '../../../server/store/queries/webhooks/history.ts';
import { send, startAgentApp } from '../../helpers/agents.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startAgentApp);
const viewer = shared(() => addPerson(app, 'viewer'));
beforeAll(async () => {
  await send(await app.addWebhook({ name: 'Shop orders' }));
});

const overview = async () => (await fetch(app.url, { headers: { cookie: viewer.cookie } })).text();
const unread = (page: string) => [...page.matchAll(/The ([a-z ]+) could not be read\./g)].map(([, part]) => part);

test('the parts that do not need what cannot be read are shown', async () => {
  expect(unread(await overview())).toEqual([]);
  await app.database.transaction(async (query) => {
    await query({ text: 'lock table deliveries_live in access exclusive mode' });
    const page = await overview();
    expect(unread(page)).toEqual([]);
    expect(page).toContain('Shop orders</a>');
    expect(page).not.toContain('There is no webhook yet');
  });
});

test('the overview is good without an issue, and not while many requests are not accepted', async () => {
  const installation = await startAgentApp();
  onTestFinished(() => installation.stop());
  const { cookie } = await addPerson(installation, 'viewer');
  const page = async () => (await fetch(installation.url, { headers: { cookie } })).text();
  const verdict = async () => /<p class="verdict[^>]*>(.*?)<\/p>/s.exec(await page())?.[1]?.replace(/<[^>]*>/g, '');
  expect(await verdict()).toBe('No webhook yet: create one to receive events');
  const { id: webhookId } = await installation.addWebhook();
  const count = (counts: object) => addHistory(installation.database, [{ webhookId, minuteMs: Date.now(), ...counts }]);
  await count({ accepted: 95, limited: 5 });
  expect(await verdict()).toBe('All good: 95 events in the last 24 hours, 5 requests not accepted');
  await count({ rejected: 1 });
  expect(await verdict()).toBe(
    '5.9 % of the requests in the last 24 hours were not accepted: 1 rejected, 5 rate limited, 0 refused',
  );
  await count({ too_large: 2 });
  expect(await verdict()).toMatch(/^7\.8 % .+ 1 rejected, 5 rate limited, 2 refused$/);
});
