import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson, PASSWORD } from '../helpers/people.ts';
import { shared } from '../helpers/shared.ts';

const app = shared(startPagesApp);
const administrator = shared(() => addPerson(app, 'administrator', PASSWORD));

test.each([
  ['light', 1280, false],
  ['dark and narrow', 360, true],
] as const)('the pages of a user and of an invitation are accessible and fit, %s', async (_, width, dark) => {
  const { page, complaints, close } = await openTab(app, administrator, { width, dark });
  const email = `${randomUUID()}@example.org`;
  const { body: invited } = await administrator.api('POST', '/api/v1/users', { email, role: 'viewer', invite: true });
  for (const path of [`/users/${(await addPerson(app, 'viewer')).id}`, invited.invitation_url]) {
    await page.goto(path);
    expect(await accessibilityViolations(page)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
  }
  expect(complaints).toEqual([]);
  await close();
});

const hostile = [
  '<script>globalThis.pwned=1</script>',
  '"><img src=x onerror=globalThis.pwned=1>',
  "' autofocus onfocus=globalThis.pwned=1 x='",
  '</title><svg onload=globalThis.pwned=1>',
  '<a href="javascript:globalThis.pwned=1">x</a>',
  '<%= globalThis.pwned=1 %>',
  '&lt;b&gt; \u202e gnp.exe',
];

test('names and emails are shown as text, for any content', async () => {
  const people = await Promise.all(hostile.map(() => addPerson(app, 'operator')));
  const emails = hostile.map((text) => `${text}@${randomUUID()}`);
  for (const [index, text] of hostile.entries()) {
    const values = [people[index]!.id, text, emails[index]!];
    await app.database.query({ text: 'update users set name = $2, email = $3 where id = $1', values });
    await people[index]!.api('POST', '/api/v1/tokens', { name: text });
  }
  const { page, complaints, close } = await openTab(app, administrator);
  for (const path of ['/users', '/account/tokens?all=true', '/audit?action=token.']) {
    await page.goto(path);
    for (const email of emails) await page.getByRole('link', { name: email, exact: true }).first().waitFor();
  }
  for (const [index, { id }] of people.entries()) {
    await page.goto(`/users/${id}`);
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toContain(emails[index]);
    expect(await page.getByLabel('Name').inputValue()).toBe(hostile[index]);
  }
  const theirs = await openTab(app, people[0]!);
  await theirs.page.goto('/account');
  await theirs.page.getByRole('link', { name: emails[0]! }).waitFor();
  for (const tab of [page, theirs.page]) expect(await tab.evaluate('globalThis.pwned')).toBeUndefined();
  expect([...complaints, ...theirs.complaints]).toEqual([]);
  await Promise.all([close(), theirs.close()]);
});
