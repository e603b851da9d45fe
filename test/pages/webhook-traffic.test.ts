/** The numbers of requests on the list of webhooks. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { addHistory } from '../../server/store/queries/history.ts';
import { startAgentApp } from '../helpers/agents.ts';
import type { TestApp } from '../helpers/app.ts';
import { addPerson, type TestPerson } from '../helpers/people.ts';

let app: TestApp;
let viewer: TestPerson;
beforeAll(async () => {
  app = await startAgentApp();
  viewer = await addPerson(app, 'viewer');
});
afterAll(() => app.stop());

const get = async (path: string) => (await fetch(app.url + path, { headers: { cookie: viewer.cookie } })).text();

test('the list of webhooks shows for each its events, the share not accepted, and its URL to copy', async () => {
  const [busy, quiet] = [await app.addWebhook({ name: 'Busy' }), await app.addWebhook({ name: 'Quiet' })];
  await addHistory(app.database, [
    { webhookId: busy.id, minuteMs: Date.now(), accepted: 1_980, rejected: 10, limited: 6, too_large: 4 },
  ]);
  const page = await get('/webhooks');
  const cellsOf = (id: string) => {
    const row = page.split('<tr>').find((one) => one.includes(`href="/webhooks/${id}"`))!;
    return ['Events, 24 h', 'Not accepted'].map((label) => row.split(`data-label="${label}">`)[1]!.split('<')[0]);
  };
  expect(cellsOf(busy.id)).toEqual(['1,980', '1.0 %']);
  expect(cellsOf(quiet.id)).toEqual(['0', '–']);
  expect(page).toMatch(new RegExp(`data-copy="http[^"]*${busy.id}"`));
});
