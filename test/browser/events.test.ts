import { describe, expect, test } from 'vitest';
import { addAgent, send as sendTo } from '../helpers/agents.ts';
import { accessibilityViolations, openTab, startPagesApp } from '../helpers/browser.ts';
import { addPerson, PASSWORD } from '../helpers/people.ts';
import { signedRequest } from '../helpers/requests.ts';
import { ofTest, shared } from '../helpers/shared.ts';
import { openStream } from '../helpers/stream.ts';
import { until } from '../helpers/wait.ts';

const app = shared(() => startPagesApp({ RATE_LIMIT_AGENT_AUTH_MAX: 1_000_000 }));
const operator = shared(() => addPerson(app, 'operator', PASSWORD));
const webhook = shared(() => app.addWebhook({ name: 'repository' }));

/** Sends a body and returns the id of its event. */
const send = (body: string, to = webhook) => sendTo(to, body);

describe('the list', () => {
  test('shows a new event without a reload, and none while it is paused', async () => {
    const tab = await ofTest(openTab(app, operator));
    await tab.page.goto('/events');
    const rows = tab.page.locator('#events tbody tr');
    const first = await send('{"first":1}');
    await tab.page.locator(`#events a[href="/events/${first}"]`).waitFor();
    await tab.page.getByRole('button', { name: 'Pause live updates' }).click();
    const before = await rows.count();
    const stream = await openStream(`${app.url}/api/v1/stream`, { cookie: operator.cookie });
    const second = await send('{"second":1}');
    await stream.next('event', ({ id }) => id === second);
    stream.leave();
    expect(await rows.count()).toBe(before);
    await tab.page.getByRole('button', { name: 'Resume live updates' }).click();
    // The events of the pause appear without another event.
    await tab.page.locator(`#events a[href="/events/${second}"]`).waitFor();
    expect(tab.complaints).toEqual([]);
  });

  test('keeps its filters in the URL', async () => {
    const needle = 'needle 17';
    const id = await send(JSON.stringify({ needle }));
    const tab = await ofTest(openTab(app, operator));
    await tab.page.goto('/events');
    await tab.page.getByLabel('Text in the body').fill(needle);
    await tab.page.getByLabel('Text in the body').press('Enter');
    await tab.page.waitForURL(/q=needle/);
    await until(async () => (await tab.page.locator('#events tbody tr').count()) === 1);
    // Without empty parameters, and with the focus where it was.
    expect([...new URL(tab.page.url()).searchParams.keys()]).toEqual(['q']);
    await tab.page.locator('#f-q:focus').waitFor();
    await tab.page.locator(`#events a[href^="/events/${id}"]`).click();
    await tab.page.waitForURL(`**/events/${id}?q=needle*`);
    await tab.page.goBack();
    await tab.page.waitForURL('**/events?q=needle*');
    expect(await tab.page.getByLabel('Text in the body').inputValue()).toBe(needle);
    expect(await tab.page.locator('#events tbody tr').count()).toBe(1);
  });

  test('accepts times in the time zone of the browser, and keeps them as UTC in the URL', async () => {
    const tab = await openTab(app, operator);
    await tab.page.goto('/events');
    // The browser of openTab has the time zone of Berlin.
    await tab.page.getByText('More', { exact: true }).click();
    await tab.page.getByLabel('Before', { exact: true }).fill('2026-07-01T12:00');
    await tab.page.getByRole('button', { name: 'Filter' }).click();
    await tab.page.waitForURL(/to=2026-07-01T10%3A00%3A00\.000Z/);
    expect(await tab.page.getByLabel('Before', { exact: true }).inputValue()).toMatch(/^2026-07-01T12:00/);
    await tab.page.goto('/events?from=2026-01-31T23:30:00Z');
    expect(await tab.page.getByLabel('Since', { exact: true }).inputValue()).toMatch(/^2026-02-01T00:30/);
    await tab.close();
    const plain = await ofTest(openTab(app, operator, { javaScriptEnabled: false }));
    await plain.page.goto('/events?from=2026-01-31T23:30:00Z');
    expect(await plain.page.getByLabel('Since (UTC)').inputValue()).toMatch(/^2026-01-31T23:30/);
  });

  test.each([
    ['Asia/Tokyo', 9],
    ['America/Bogota', -5],
  ])('its buttons Today and Yesterday are days of the browser in %s', async (timezoneId, hours) => {
    const tab = await ofTest(openTab(app, operator, { timezoneId }));
    await tab.page.goto('/events');
    const dayMs = 86_400_000;
    const midnight = (days: number) =>
      new Date((Math.floor((Date.now() + hours * 3_600_000) / dayMs) + days) * dayMs - hours * 3_600_000).toISOString();
    const rangeOf = (name: string) => tab.page.getByRole('button', { name, exact: true }).getAttribute('value');
    expect(await rangeOf('Today')).toEqual(`${midnight(0)}/`);
    expect(await rangeOf('Yesterday')).toEqual(`${midnight(-1)}/${midnight(0)}`);
  });

  test('keeps the keyboard focus when it is updated', async () => {
    const id = await send('{"focused":1}');
    const tab = await ofTest(openTab(app, operator));
    await tab.page.goto('/events');
    await tab.page.locator(`#events a[href="/events/${id}"]`).focus();
    const next = await send('{"next":1}');
    await tab.page.locator(`#events a[href="/events/${next}"]`).waitFor();
    expect(await tab.page.evaluate('document.activeElement.getAttribute("href")')).toBe(`/events/${id}`);
  });

  test.each(['the browser', 'the link above the title'])(
    'has the focus on the same row after going back by %s',
    async (by) => {
      const id = await send('{"left":1}');
      await send('{"above":1}');
      const tab = await ofTest(openTab(app, operator));
      await tab.page.goto('/events');
      await tab.page.locator(`#events a[href="/events/${id}"]`).click();
      await tab.page.waitForURL(`**/events/${id}`);
      if (by === 'the browser') await tab.page.goBack();
      else await tab.page.locator('.crumbs a').click();
      await tab.page.waitForURL('**/events');
      await tab.page.locator(`#events a[href="/events/${id}"]:focus`).waitFor();
    },
  );
});

describe('one event', () => {
  test('is shown as a tree, formatted, raw and in hex, and can be downloaded unchanged', async () => {
    const body = '{"id":12345678901234567890,"list":[1,2]}';
    const id = await send(body);
    const tab = await ofTest(openTab(app, operator));
    await tab.page.goto(`/events/${id}`);
    const tree = tab.page.locator('#body-card .tree');
    expect(await tree.innerText()).toContain('12345678901234567890');
    await tab.page.getByLabel('Search in the body').fill('2');
    await tab.page.getByText('1 of 2').waitFor();
    await tab.page.getByLabel('Search in the body').press('Enter');
    await tab.page.locator('.tree-tools code:text("/list/1")').waitFor();
    await tree.locator('summary', { hasText: 'list' }).click();
    await tab.page.locator('.tree-tools code:text("/list")').waitFor();
    expect(await tree.locator('details[open]').count()).toBe(1);

    const shown = tab.page.locator('#body-card pre');
    await tab.page.getByRole('link', { name: 'Formatted' }).click();
    await tab.page.locator('#body-card [aria-current]:text("Formatted")').waitFor();
    expect(await shown.innerText()).toBe('{\n  "id": 12345678901234567890,\n  "list": [\n    1,\n    2\n  ]\n}');
    await tab.page.getByRole('link', { name: 'Raw' }).click();
    await tab.page.locator('#body-card [aria-current]:text("Raw")').waitFor();
    expect(await shown.innerText()).toBe(body);
    await tab.page.getByRole('link', { name: 'Hex' }).click();
    await tab.page.locator('#body-card [aria-current]:text("Hex")').waitFor();
    expect(await tab.page.evaluate('document.activeElement.id')).toBe('view-hex');
    expect(await shown.innerText()).toContain('7b 22 69 64');
    const download = tab.page.waitForEvent('download');
    await tab.page.getByRole('link', { name: 'Download body' }).click();
    const stream = await (await download).createReadStream();
    expect(Buffer.concat(await stream.toArray()).toString()).toBe(body);
    expect(await accessibilityViolations(tab.page)).toEqual([]);
    expect(tab.complaints).toEqual([]);
  });

  test('has the search and the copies of its tree, also when another view was open before', async () => {
    const id = await send('{"text":"a \\"b\\"","list":[1,2]}');
    const tab = await openTab(app, operator);
    await tab.page.goto(`/events/${id}?view=raw`);
    await tab.page.getByRole('link', { name: 'Tree' }).click();
    await tab.page.getByLabel('Search in the body').fill('a');
    const copied = (name: string) => tab.page.getByRole('button', { name }).getAttribute('data-copy');
    expect([await copied('Copy path'), await copied('Copy value')]).toEqual(['/text', 'a "b"']);
    await tab.page.locator('#body-card summary', { hasText: 'list' }).click();
    expect([await copied('Copy path'), await copied('Copy value')]).toEqual(['/list', '[1,2]']);
    expect(tab.complaints).toEqual([]);
    await tab.close();
  });

  test.each([true, false])('is edited and sent again as a new event (JavaScript: %s)', async (javaScriptEnabled) => {
    const id = await send('{"order":7}');
    const tab = await ofTest(openTab(app, operator, { javaScriptEnabled }));
    await tab.page.goto(`/events/${id}`);
    await tab.page.getByRole('link', { name: 'Edit and send again' }).click();
    expect(await tab.page.getByRole('textbox', { name: 'Body' }).inputValue()).toBe('{\n  "order": 7\n}');
    // Not by its label alone: the page before has a section of that name.
    await tab.page.getByRole('textbox', { name: 'Headers' }).fill('not a header');
    await tab.page.getByRole('button', { name: 'Send' }).click();
    await tab.page.getByText('Give one header a line').waitFor();
    await tab.page.getByLabel('Body').fill('{"order":8}');
    await tab.page.getByRole('textbox', { name: 'Headers' }).fill('X-Kind: order');
    await tab.page.getByRole('button', { name: 'Send' }).click();
    await tab.page.getByText('Sent. This is the new event.').waitFor();
    expect(await tab.page.locator('#body-card .tree').innerText()).toMatch(/order\W+8/);
    expect(await tab.page.getByText('x-kind', { exact: true }).count()).toBe(1);
    expect(tab.page.url()).not.toContain(id);
  });

  test('goes to the previous and next by the filters of the list, and shows what changed since the previous', async () => {
    const other = await app.addWebhook({ name: 'other sender' });
    const first = await send('{"filtered":true,"stock":1,"name":"lamp"}');
    await send('{"filtered":false}', other);
    await send('{"between":1}');
    const second = await send('{"filtered":true,"stock":2,"name":"lamp"}');
    const tab = await ofTest(openTab(app, operator));
    await tab.page.goto('/events?q=%22filtered%22:true');
    await tab.page.locator(`#events a[href^="/events/${second}?"]`).click();
    await tab.page.getByRole('link', { name: 'Previous' }).click();
    await tab.page.waitForURL(`**/events/${first}?q=*`);
    expect(await tab.page.getByRole('link', { name: 'Previous' }).count()).toBe(0);
    await tab.page.getByRole('link', { name: 'Next' }).click();
    await tab.page.waitForURL(`**/events/${second}?q=*`);
    await tab.page.getByRole('link', { name: 'Matching events' }).waitFor();
    // The difference is to the previous event of the webhook, which the filter excludes.
    await tab.page.getByRole('link', { name: 'Changes' }).click();
    const changes = tab.page.getByRole('region', { name: 'The changes' });
    await changes.waitFor();
    expect((await changes.locator('del').allInnerTexts()).map((text) => text.trimEnd())).toEqual(['−   "between": 1']);
    expect(await changes.locator('ins').count()).toBe(3);
    expect(await accessibilityViolations(tab.page)).toEqual([]);
    expect(tab.complaints).toEqual([]);
  });
});

describe('an agent', () => {
  test('has chosen deliveries dismissed from the list', async () => {
    const webhook = await app.addWebhook();
    const agent = await addAgent(app, [webhook]);
    for (let i = 0; i < 3; i++) await send('{}', webhook);
    await app.sql(`update deliveries set state = 'dead', finished_at = now() where agent_id = $1`, agent.id);
    const tab = await ofTest(openTab(app, operator));
    await tab.page.goto(`/deliveries?agent_id=${agent.id}`);
    const boxes = tab.page.getByRole('checkbox', { name: /^Choose/ });
    // A refresh would take the choice away.
    const used = (checked: boolean) =>
      tab.page.evaluate(
        `document.querySelector('.choose input').checked = ${checked}, isUsed(document.getElementById('deliveries'))`,
      );
    expect([await used(true), await used(false)]).toEqual([true, false]);
    for (const i of [0, 2]) await boxes.nth(i).check();
    await tab.page.locator('#chosen').getByText('Dismiss…').click();
    await tab.page.locator('#chosen').getByRole('button', { name: 'Dismiss now' }).click();
    await tab.page.getByText('2 dead letters are dismissed.').waitFor();
    await tab.page.goto(`/deliveries?state=dead&agent_id=${agent.id}`);
    expect(await boxes.count()).toBe(1);
    expect(tab.complaints).toEqual([]);
  });
});

test('input of strangers is never executed: names, headers, bodies, user agents', async () => {
  const corpus = [
    '<script>document.title="owned"</script>',
    '"><img src=x onerror=document.title="owned">',
    `'onmouseover='document.title="owned"`,
    'javascript:document.title="owned"',
    '</code></pre><svg onload=document.title="owned">',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a template could execute it
    '{{7*7}}<%= 7*7 %>${7*7}',
    '<a hx-get="/events" hx-trigger="load">x</a>',
  ];
  const hostileName = corpus.join(' ').slice(0, 200).trim();
  const hostile = await app.addWebhook({ name: hostileName });
  const named = await operator.api('POST', '/api/v1/agents', { name: hostileName, webhook_ids: [hostile.id] });
  const agent = named.body.id;
  for (const text of corpus) {
    const request = signedRequest({ secret: hostile.secret, body: `{"a":"${text.replaceAll('"', '\\"')}"}` });
    const headers = {
      ...(request.headers as Record<string, string>),
      'user-agent': text,
      'x-note': text,
      'content-type': text,
    };
    expect((await fetch(hostile.url, { ...request, headers })).status).toBe(202);
  }
  const tab = await ofTest(openTab(app, operator));
  const { items } = (await operator.api('GET', `/api/v1/events?webhook_id=${hostile.id}`)).body;
  expect(items).toHaveLength(corpus.length);
  const places = [
    '/',
    '/events',
    '/webhooks',
    `/webhooks/${hostile.id}`,
    `/webhooks/${hostile.id}/edit`,
    '/agents',
    `/agents/${agent}`,
    '/deliveries',
  ];
  for (const path of [...places, ...items.map(({ id }: { id: string }) => `/events/${id}`)]) {
    await tab.page.goto(path);
    expect(await tab.page.title(), path).not.toBe('owned');
    expect(
      await tab.page
        .locator('main script:not([src^="/assets/"]), main img, [onerror], [onload], [onmouseover]')
        .count(),
      path,
    ).toBe(0);
  }
  expect(tab.complaints).toEqual([]);
});
