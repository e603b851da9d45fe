import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Exchange } from '../../server/base/http/exchange.ts';
import { History, type Live, type Second } from '../../server/manage/live/counters.ts';
import { appearanceOf, frameOf, usualAppearance } from '../../server/pages/frame.ts';
import type { TestApp } from '../helpers/app.ts';
import { startPagesApp } from '../helpers/browser.ts';
import { addPerson, csrfToken, type TestPerson } from '../helpers/people.ts';

const withCookie = (value: string | undefined) => ({ cookie: () => value }) as unknown as Exchange;
const live = (dead: number, database: 'up' | 'down' = 'up') => ({ deliveries: { dead }, database }) as Live;

function historyOf(latest: Live | null, rejected: number[] = []): History {
  const history = new History(rejected.map((count) => ({ rejected: count }) as Second));
  history.latest = latest;
  return history;
}

describe('the frame of a page', () => {
  test.each([
    ['no problem', historyOf(live(0)), { dead: 0, rejected: 0, badge: '' }],
    ['dead letters', historyOf(live(12)), { dead: 12, badge: '(12) ' }],
    ['the most dead letters shown', historyOf(live(999)), { badge: '(999) ' }],
    ['more than that', historyOf(live(1000)), { badge: '(999+) ' }],
    ['a database that is down', historyOf(live(3, 'down')), { badge: '(!) ' }],
    ['rejections, which need no badge', historyOf(live(0), [2, 0, 3]), { rejected: 5, badge: '' }],
    ['no state yet', historyOf(null), { dead: 0, rejected: 0, badge: '' }],
    ['a client that is not signed in', null, { dead: 0, rejected: 0, badge: '' }],
  ])('with %s', (_, history, expected) => {
    expect(frameOf(usualAppearance, history)).toMatchObject(expected);
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

describe('POST /account/appearance', () => {
  let app: TestApp;
  let viewer: TestPerson;
  beforeAll(async () => {
    app = await startPagesApp();
    viewer = await addPerson(app, 'viewer');
  });
  afterAll(() => app?.stop());

  async function choose(fields: Record<string, string>, headers: Record<string, string> = {}) {
    const csrf = await csrfToken(app.url, viewer.cookie);
    return fetch(`${app.url}/account/appearance`, {
      method: 'POST',
      body: new URLSearchParams({ csrf, ...fields }),
      headers: { cookie: viewer.cookie, origin: app.url, ...headers },
      redirect: 'manual',
    });
  }

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
