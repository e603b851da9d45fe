import { describe, expect, test } from 'vitest';
import type { Exchange } from '../../../server/base/http/exchange.ts';
import { appearanceOf, frameOf, usualAppearance } from '../../../server/pages/serve/frame.ts';
import { addAgent, send, startAgentApp } from '../../helpers/agents.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson } from '../../helpers/people.ts';
import { ofTest, shared } from '../../helpers/shared.ts';

const withCookie = (value: string | undefined) => ({ cookie: () => value }) as unknown as Exchange;
describe('the frame of a page', () => {
  test.each([
    ['no issue', 0, false, ''],
    ['issues', 12, false, '(12) '],
    ['the most issues shown', 999, false, '(999) '],
    ['more than that', 1000, false, '(999+) '],
    ['a database that is down', 3, true, '(!) '],
  ])('with %s', (_, issues, isDown, badge) => {
    expect(frameOf(usualAppearance, issues, isDown)).toMatchObject({ issues, badge });
  });

  test.each([
    [undefined, 'system', 'comfortable'],
    ['dark.compact', 'dark', 'compact'],
    ['light', 'light', 'comfortable'],
    ['"><script>.x', 'system', 'comfortable'],
  ])('with the cookie %s', (cookie, theme, density) => {
    expect(appearanceOf(withCookie(cookie))).toEqual({ theme, density });
  });
});

test('the first page that is opened has the number of open issues in its menu and title', async () => {
  const app = await ofTest(startAgentApp());
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  await send(webhook);
  await send(webhook);
  const deliveries = await agent.claim();
  await app.sql(
    `update deliveries set state = 'dead', finished_at = now() where id = any ($1::uuid[])`,
    `{${deliveries.map(({ id }) => id).join()}}`,
  );
  const { cookie } = await addPerson(app, 'viewer');
  await fetch(app.url, { headers: { cookie } });
  // A page without a live part, which follows no stream.
  const page = await (await fetch(`${app.url}/docs`, { headers: { cookie } })).text();
  expect(page).toContain('<a class="count" href="/issues" data-count="issues" title="open issues">1</a>');
  expect(page).toContain('<title>(1) ');
});

describe('POST /account/appearance', () => {
  const app = shared(startPagesApp);
  const viewer = shared(() => addPerson(app, 'viewer'));

  const choose = (fields: Record<string, string>, headers: Record<string, string>) =>
    viewer.submit('/account/appearance', fields, headers);

  test('keeps theme and density in a cookie with which pages have them from the start', async () => {
    const { status, headers } = await choose({ theme: 'dark' }, { referer: `${app.url}/events?q=a` });
    expect([status, headers.get('location')]).toEqual([303, '/events?q=a']);
    const [cookie] = headers.get('set-cookie')!.split(';');
    expect(cookie).toBe('weir_appearance=dark.comfortable');
    const denser = await choose({ density: 'compact' }, { cookie: `${viewer.cookie}; ${cookie}` });
    expect(denser.headers.get('location')).toBe('/account');
    expect(denser.headers.get('set-cookie')).toContain('weir_appearance=dark.compact;');
    const page = await fetch(app.url, { headers: { cookie: `${viewer.cookie}; weir_appearance=dark.compact` } });
    expect(await page.text()).toContain('<html lang="en" data-theme="dark" data-density="compact">');
  });

  test.each([
    ['https://evil.example/events', '/events'],
    ['https://evil.example//evil.example/', '/account'],
    ['no URL', '/account'],
  ])('stays on its own origin after a form of %s', async (referer, to) => {
    expect((await choose({ theme: 'light' }, { referer })).headers.get('location')).toBe(to);
  });
});
