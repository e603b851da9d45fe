import { readFileSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson, type TestPerson } from '../helpers/people.ts';
import { shared } from '../helpers/shared.ts';

const app = shared(startPagesApp);
let administrator: TestPerson;
let viewer: TestPerson;
beforeAll(async () => {
  [administrator, viewer] = [await addPerson(app, 'administrator'), await addPerson(app, 'viewer')];
  const { body: token } = await viewer.api('POST', '/api/v1/tokens', { name: '<script>alert(1)</script>' });
  await administrator.api('DELETE', `/api/v1/tokens/${token.id}`);
  for (let each = 0; each < 51; each++)
    await administrator.api('POST', '/api/v1/tokens', { name: `token ${each}`, role: 'viewer' });
});

test('the list is paged and keeps its filters', async () => {
  const { page, close } = await openTab(app, administrator);
  await page.goto('/audit');
  await page.locator('tbody tr').first().getByRole('link', { name: administrator.email }).click();
  await page.waitForURL(`**/audit?actor_id=${administrator.id}`);
  expect(await page.locator('tbody tr').count()).toBe(50);
  await page.getByRole('link', { name: 'Older' }).click();
  await page.waitForURL(`**/audit?actor_id=${administrator.id}&cursor=4`);
  expect(await page.locator('tbody tr').count()).toBe(2);
  await page.getByRole('link', { name: 'Newest' }).click();
  await page.waitForURL(`**/audit?actor_id=${administrator.id}`);
  await close();
});

test('times of the filter are in UTC, and an invalid filter is reported beside its field', async () => {
  const soon = new Date(Date.now() + 60_000).toISOString().slice(0, 16);
  const before = new Date(Date.now() - 3_600_000).toISOString().slice(0, 16);
  const count = async (query: string) =>
    (await administrator.browse('GET', `/audit?${query}`)).text.match(/<td class="num"/g)?.length ?? 0;
  expect(await count(`from=${before}`)).toBe(50);
  expect(await count(`to=${before}`)).toBe(0);
  expect(await count(`from=${soon}`)).toBe(0);

  const { page, close } = await openTab(app, administrator);
  await page.goto('/audit?actor_id=somebody');
  expect(await page.locator('#e-actor_id').textContent()).toMatch(/^Give an id/);
  await close();
});

test.each(['0', '01', '54', '999999999999999', 'x', '1e1'])('the entry %s is not found', async (number) => {
  expect((await administrator.browse('GET', `/audit/${number}`)).status).toBe(404);
});

test.each([
  ['light', 1280, false],
  ['dark and narrow', 360, true],
] as const)('an entry is accessible and fits, %s', async (_, width, dark) => {
  const { page, complaints, close } = await openTab(app, administrator, { width, dark });
  await page.goto('/audit/2');
  expect(await accessibilityViolations(page)).toEqual([]);
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
  expect(complaints).toEqual([]);
  await close();
});

test('the log is for administrators only', async () => {
  expect((await viewer.browse('GET', '/audit')).status).toBe(403);
  expect((await viewer.browse('GET', '/audit/1')).status).toBe(403);
});

test('verification reports how many entries are valid, and checks a given head', async () => {
  const { page, complaints, close } = await openTab(app, administrator);
  await page.goto('/audit');
  await page.getByRole('link', { name: 'Verify' }).click();
  await page.getByText('The log is intact: 53 entries.').waitFor();
  const [newest] = (await administrator.api('GET', '/api/v1/audit?limit=1')).body.items;
  await page.getByText(newest.hash).waitFor();
  await page.getByLabel('Head').fill(newest.hash);
  await page.getByRole('button', { name: 'Verify' }).click();
  await page.getByText('and the chain contains the given head').waitFor();
  await page.getByLabel('Head').fill('0'.repeat(64));
  await page.getByRole('button', { name: 'Verify' }).click();
  await page.getByText('The chain does not contain the given head').waitFor();
  await page.getByLabel('Head').fill('a hash');
  await page.getByRole('button', { name: 'Verify' }).click();
  await page.getByText('Give a hash of 64 hex digits.').waitFor();
  expect(await accessibilityViolations(page)).toEqual([]);
  expect(complaints.filter((text) => !text.includes('422'))).toEqual([]);
  await close();
});

test('an entry that was changed outside Weir is found', async () => {
  await app.database.query({ text: 'alter table audit_log disable trigger audit_log_append_only', values: [] });
  await app.database.query({
    text: `update audit_log set entry = replace(entry::text, 'token 7', 'token 8')::json where number = 10`,
    values: [],
  });
  const { page, close } = await openTab(app, administrator);
  await page.goto('/audit/verify');
  await page.getByText('9 entries are valid').waitFor();
  await page.getByRole('link', { name: 'entry 10' }).click();
  await page.getByRole('heading', { name: 'Entry 10: token.create' }).waitFor();
  await close();
});

test('changes are found by the user, even after the user was deleted', async () => {
  const gone = await addPerson(app, 'viewer');
  await gone.api('POST', '/api/v1/tokens', { name: 'of somebody who leaves' });
  const { page, close } = await openTab(app, administrator);
  await page.goto('/audit');
  await page.getByLabel('By', { exact: true }).selectOption(gone.email);
  await page.getByRole('button', { name: 'Filter' }).click();
  await page.waitForURL(`**/audit?*actor_id=${gone.id}*`);
  expect(await page.locator('tbody tr').count()).toBe(1);
  await administrator.api('DELETE', `/api/v1/users/${gone.id}`);
  await page.reload();
  expect(await page.getByLabel('By', { exact: true }).locator('option:checked').textContent()).toBe(gone.email);

  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Download' }).click(),
  ]);
  expect(download.suggestedFilename()).toBe('audit.jsonl');
  expect(readFileSync(await download.path(), 'utf8')).toContain('of somebody who leaves');
  await close();
});
