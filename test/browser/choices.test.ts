import { beforeAll, expect, test } from 'vitest';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson } from '../helpers/people.ts';
import { signedRequest } from '../helpers/requests.ts';
import { shared } from '../helpers/shared.ts';

const app = shared(startPagesApp);
const operator = shared(() => addPerson(app, 'operator'));
const oldest = shared(() => app.addWebhook({ name: 'The oldest' }));
const second = shared(() => app.addWebhook({ name: 'The second' }));
beforeAll(async () => {
  await app.database.query({
    text: `insert into webhooks (id, name, created_at)
           select gen_random_uuid(), 'Shop ' || i, now() + i * interval '1 second' from generate_series(1, 250) i`,
  });
});

test.each([true, false])('a webhook beyond the list is chosen by its name (JavaScript: %s)', async (js) => {
  for (const webhook of [oldest, second])
    expect((await fetch(webhook.url, signedRequest({ secret: webhook.secret }))).status).toBe(202);
  const { page, complaints, close } = await openTab(app, operator, { javaScriptEnabled: js });
  const filterBy = async (name: string) => {
    await page.getByLabel('Webhook', { exact: true }).fill(name);
    await page.getByRole('button', { name: 'Filter' }).click();
  };
  await page.goto('/events');
  await filterBy('the OLD');
  await page.waitForURL(/webhook_id=the/);
  await page.locator('#events tbody a', { hasText: 'The second' }).first().waitFor({ state: 'detached' });
  expect(await page.locator('#events tbody').innerText()).toContain('The oldest');
  expect(await page.getByLabel('Webhook', { exact: true }).inputValue()).toBe('The oldest');

  await filterBy('nowhere');
  await page.getByText('No webhook has “nowhere” in its name.').waitFor();
  await filterBy('the');
  await page.getByText('2 webhooks have “the” in their name. Type more of the name: The second, The oldest.').waitFor();
  if (js) expect(await accessibilityViolations(page)).toEqual([]);
  expect(complaints.filter((complaint) => !/status of 422/.test(complaint))).toEqual([]);

  for (const path of ['/deliveries', '/rejections']) {
    await page.goto(`${path}?webhook_id=${second.id}`);
    expect(await page.getByLabel('Webhook', { exact: true }).inputValue()).toBe('The second');
  }
  await close();
});

test('saving an agent keeps all its webhooks, and adds a named one', async () => {
  const { id } = (await operator.api('POST', '/api/v1/agents', { name: 'bot', webhook_ids: [oldest.id] })).body;
  const { page, close } = await openTab(app, operator, { javaScriptEnabled: false });
  await page.goto(`/agents/${id}/edit`);
  expect(await page.getByLabel('The oldest').isChecked()).toBe(true);
  await page.getByLabel('Add another').fill('Shop');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Many webhooks have “Shop” in their name.').waitFor();
  expect(await page.getByLabel('Add another').inputValue()).toBe('Shop');
  await page.getByLabel('Add another').fill('Second');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  const agent = (await operator.api('GET', `/api/v1/agents/${id}`)).body;
  expect(agent.first_webhook_ids).toEqual([oldest.id, second.id].sort());
  await close();
});
