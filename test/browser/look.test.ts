import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { pageRoutes } from '../../server/manage/api/routes.ts';
import { addHistory } from '../../server/store/queries/webhooks/history.ts';
import { storeEvents } from '../helpers/agents.ts';
import { accessibilityViolations, openTab, startPagesApp, type Tab } from '../helpers/browser.ts';
import { addPerson } from '../helpers/people.ts';
import { signedRequest } from '../helpers/requests.ts';
import { ofTest, shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

const app = shared(startPagesApp);
const administrator = shared(() => addPerson(app, 'administrator'));
beforeAll(async () => {
  // For the page Status.
  await app.sql(`with alert as (
             insert into alerts (id, condition, subject_id, subject_name, since, began_at, value, checked_at)
             values (gen_random_uuid(), 'dead_letters', gen_random_uuid()::text, 'billing', now(), now(), 3, now()) returning id
           )
           insert into alert_requests (id, alert_id, type, body, state, created_at, next_attempt_at, last_attempt_at, last_error)
           select id, id, 'alert.began', '{}', 'failed', now(), now(), now(), 'receiver answered 500' from alert`);
});

/** Every page that needs no id, except those that do not exist with an administrator, or without an identity provider or an invitation. */
const places = pageRoutes.filter(
  ([method, path]) =>
    method === 'GET' && !path.includes(':') && !['/setup', '/invitation'].includes(path) && !path.startsWith('/oidc/'),
);

describe.each([
  // Colours do not depend on the width: each theme and each width once.
  ['light', 1280, false],
  ['dark', 390, true],
])('the lists in %s, %i px', (_, width, dark) => {
  // One for all pages, as a person has it: what they share is loaded once.
  let [signedIn, signedOut]: Tab[] = [];
  beforeAll(async () => {
    signedIn = await openTab(app, administrator, { width, dark });
    signedOut = await openTab(app, null, { width, dark });
  });
  afterAll(async () => {
    await signedIn?.close();
    await signedOut?.close();
  });

  test.each(places.map(([, path, , access]) => ({ path, access })))(
    '$path is accessible, fits, and has no refused request',
    async ({ path, access }) => {
      const tab = access === 'anyone' ? signedOut! : signedIn!;
      await tab.page.goto(path);
      expect(await accessibilityViolations(tab.page)).toEqual([]);
      expect(await tab.page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
      expect(tab.complaints.splice(0)).toEqual([]);
    },
  );
});

describe('the guides', () => {
  const names = readdirSync(new URL('../../views/docs', import.meta.url)).filter((name) => name.endsWith('.md'));

  test.each([
    ['light', 1280, false],
    ['dark', 390, true],
  ])('are accessible and fit, in %s at %i px', async (_, width, dark) => {
    const tab = await ofTest(openTab(app, null, { width, dark }));
    for (const name of names) {
      const path = `/docs/${name.replace('.md', '')}`;
      await tab.page.goto(path);
      // Tables in closed details are not rendered, so not checked.
      await tab.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true");
      expect([path, ...(await accessibilityViolations(tab.page))]).toEqual([path]);
      expect([path, await tab.page.evaluate('document.documentElement.scrollWidth')]).toEqual([path, width]);
    }
    expect(tab.complaints).toEqual([]);
  });
});

test('forced colours mark the current page and tab, and draw the lines of a chart in several colours', async () => {
  const webhook = await app.addWebhook({ name: 'contrast' });
  const tab = await ofTest(openTab(app, administrator));
  await tab.page.emulateMedia({ forcedColors: 'active' });
  await tab.page.goto(`/webhooks/${webhook.id}`);
  const outlines = await tab.page.evaluate(
    `[...document.querySelectorAll('nav [aria-current]')].map((one) => getComputedStyle(one).outlineStyle)`,
  );
  expect(outlines).toEqual(['solid', 'solid']);
  await tab.page.goto('/');
  const colours = (await tab.page.evaluate(
    `[...document.querySelectorAll('.legend li')].map((one) => getComputedStyle(one, '::before').backgroundColor)`,
  )) as string[];
  expect(new Set(colours).size).toBe(4);
});

test('no line of a code sample is cut off', async () => {
  const webhook = await app.addWebhook({ name: 'samples' });
  const tab = await ofTest(openTab(app, administrator));
  for (const width of [1440, 390]) {
    await tab.page.setViewportSize({ width, height: 900 });
    await tab.page.goto(`/webhooks/${webhook.id}`);
    for (const language of await tab.page.locator('details:has(> .sample)').all()) {
      if ((await language.getAttribute('open')) === null) await language.locator('summary').click();
      const hidden = await tab.page.evaluate(`[...document.querySelectorAll('.sample > pre')]
        .filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth)
        .map((one) => one.ariaLabel)`);
      expect([width, hidden]).toEqual([width, []]);
    }
  }
});

test('the first load of a page is less than 70 kB, also of a webhook with requests in each quarter of an hour', async () => {
  const { id } = await app.addWebhook({ name: 'busy' });
  const minutes = Array.from({ length: 95 }, (_, at) => Date.now() - at * 900_000);
  await addHistory(
    app.database,
    minutes.map((minuteMs, at) => ({
      webhookId: id,
      minuteMs,
      accepted: 700 + at,
      rejected: at,
      limited: 3,
      too_large: 1,
    })),
  );
  await storeEvents(app.database, id, 50);
  for (const path of [`/webhooks/${id}`, '/', '/events']) {
    // Nothing is in the cache of a new tab.
    const { page } = await ofTest(openTab(app, administrator));
    await page.goto(path);
    const bytes = await page.evaluate(`document.fonts.ready.then(() =>
      [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
        .reduce((sum, { transferSize }) => sum + transferSize, 0))`);
    expect(bytes, path).toBeGreaterThan(40_000);
    expect(bytes, path).toBeLessThan(70_000);
  }
});

describe('with one of everything, whose names leave no room,', () => {
  const paths: string[] = [];
  beforeAll(async () => {
    const name = 'a-webhook-whose-name-has-no-space-and-is-as-long-as-that-of-a-repository';
    const webhook = await app.addWebhook({ name });
    const given = { name: 'another-agent-whose-name-has-no-space-and-leaves-no-room', webhook_ids: [webhook.id] };
    const agent = (await administrator.api('POST', '/api/v1/agents', given)).body.id;
    const send = (secret: string | null) => fetch(webhook.url, signedRequest({ secret, body: '{"a":1}' }));
    expect([(await send(webhook.secret)).status, (await send('a wrong secret')).status]).toEqual([202, 403]);
    const first = async (path: string) =>
      (await until(async () => (await administrator.api('GET', `/api/v1/${path}`)).body.items[0])).id;
    for (const kind of ['rejections', 'events', 'deliveries'])
      paths.push(`/${kind}/${await first(`${kind}?webhook_id=${webhook.id}`)}`);
    paths.push(...['', '/rejections', '/settings', '/secret', '/edit'].map((tab) => `/webhooks/${webhook.id}${tab}`));
    paths.push(
      ...['', '/edit', `/filter?webhook_id=${webhook.id}`, '/webhooks'].map((tab) => `/agents/${agent}${tab}`),
    );
    paths.push(`/users/${administrator.id}`, `/account/tokens/${await first('tokens')}`, '/audit/1');
  });

  test('the rows of lists are cards on a phone, all of whose cells are there to read', async () => {
    const { page } = await ofTest(openTab(app, administrator, { width: 360 }));
    const lists = [
      '',
      'webhooks',
      'events',
      'rejections',
      'agents',
      'deliveries',
      'users',
      'audit',
      'account',
      'status',
    ];
    for (const path of lists) {
      await page.goto(`/${path}`);
      await page.locator('tbody tr').filter({ visible: true }).first().waitFor();
      const hidden = await page.evaluate(`
        [...document.querySelectorAll('tbody > tr > *, .scroll')]
          .filter((one) => one.childNodes.length > 0 && one.checkVisibility())
          .filter((one) => one.getBoundingClientRect().right > innerWidth || one.scrollWidth > one.clientWidth + 1)
          .map((one) => one.outerHTML)`);
      expect([path, hidden, await accessibilityViolations(page)]).toEqual([path, [], []]);
    }
  });

  test.each([
    // Rules of accessibility are checked once in each theme; whether a page fits, at each width.
    ['light', [1440, 1024, 390], false],
    ['dark', [390, 1024], true],
  ])('the pages of one thing are accessible and fit, in %s at %j px', async (_, [first, ...others], dark) => {
    const tab = await ofTest(openTab(app, administrator, { width: first!, dark }));
    for (const path of paths) {
      await tab.page.setViewportSize({ width: first!, height: 900 });
      await tab.page.goto(path);
      expect([path, ...(await accessibilityViolations(tab.page))]).toEqual([path]);
      for (const width of [first!, ...others]) {
        await tab.page.setViewportSize({ width, height: 900 });
        expect([path, await tab.page.evaluate('document.documentElement.scrollWidth')]).toEqual([path, width]);
      }
    }
    expect(tab.complaints).toEqual([]);
  });
});
