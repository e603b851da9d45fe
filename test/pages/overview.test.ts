/** The overview when parts of it cannot be read. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { send, startAgentApp } from '../helpers/agents.ts';
import type { TestApp } from '../helpers/app.ts';
import { addPerson, type TestPerson } from '../helpers/people.ts';

let app: TestApp;
let viewer: TestPerson;
let event: string;
beforeAll(async () => {
  app = await startAgentApp();
  viewer = await addPerson(app, 'viewer');
  event = await send(await app.addWebhook({ name: 'Shop orders' }));
});
afterAll(() => app.stop());

const overview = async () => (await fetch(app.url, { headers: { cookie: viewer.cookie } })).text();
const unread = (page: string) => [...page.matchAll(/The ([a-z ]+) could not be read\./g)].map(([, part]) => part);

test.each([
  ['deliveries_live', ['conditions']],
  ['events', ['newest events']],
])('the parts that do not need %s are shown while it cannot be read', async (table, parts) => {
  expect(unread(await overview())).toEqual([]);
  await app.database.transaction(async (query) => {
    await query({ text: `lock table ${table} in access exclusive mode` });
    const page = await overview();
    expect(unread(page)).toEqual(parts);
    expect(page).toContain('Shop orders</a>');
    expect(page.includes(`/events/${event}`)).toBe(table !== 'events');
    expect(page).not.toContain('There is no webhook yet');
  });
});
