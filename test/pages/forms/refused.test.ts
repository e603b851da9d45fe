/** Forms whose request was refused, and values that are shown once: nothing that was typed or shown is lost. */
import { beforeAll, describe, expect, test } from 'vitest';
import { addAgent, send } from '../../helpers/agents.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson, csrfToken, PASSWORD } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(startPagesApp);
const administrator = shared(() => addPerson(app, 'administrator', PASSWORD));
let csrf: string;
beforeAll(async () => {
  csrf = await csrfToken(app.url, administrator.cookie);
});

const post = (path: string, fields: Record<string, string>, headers: Record<string, string> = {}) =>
  administrator.submit(path, { csrf, ...fields }, headers);
const get = (path: string) => administrator.page(path);

describe('a form refused while the database is away', () => {
  const fields = { name: 'shop & sons', description: 'two\nlines', secret_choice: 'given', secret: 'do not repeat me' };

  test('is shown again with its values, without its secrets, and can be sent again', async () => {
    await app.cutOff();
    const refused = await post('/webhooks/new', fields).finally(() => app.restore());
    expect([refused.status, refused.headers.get('cache-control')]).toEqual([503, 'no-store']);
    expect(refused.text).toContain('action="/webhooks/new"');
    expect(refused.text).toContain(`name="csrf" value="${csrf}"`);
    expect(refused.text).toContain('value="shop &amp; sons"');
    expect(refused.text).toMatch(/<textarea[^>]* name="description"[^>]*>two\nlines<\/textarea>/);
    expect(refused.text).toContain('name="secret_choice" value="given"');
    expect(refused.text).toMatch(/<input id="f-secret" name="secret" type="password" value=""/);
    expect(refused.text).not.toContain('do not repeat me');
    await until(async () => (await fetch(`${app.url}/readyz`)).status === 200);
    expect((await post('/webhooks/new', fields)).text).toContain('shop &amp; sons');
  });

  test('from another site is not repeated', async () => {
    await app.cutOff();
    const refused = await post('/webhooks/new', fields, { origin: 'https://evil.example' }).finally(() =>
      app.restore(),
    );
    expect(refused.status).toBe(503);
    expect(refused.text).not.toContain('shop');
    await until(async () => (await fetch(`${app.url}/readyz`)).status === 200);
  });
});

test('a page that the database does not answer is opened again, also without scripts', async () => {
  await app.cutOff();
  const refused = await get('/webhooks').finally(() => app.restore());
  expect(refused).toContain('<noscript><meta http-equiv="refresh" content="15"></noscript>');
  expect(refused).toContain('data-retry="/webhooks"');
  await until(async () => (await fetch(`${app.url}/readyz`)).status === 200);
  expect(await get('/webhooks')).not.toContain('http-equiv');
});

test('a form with the token of an ended session is shown again with the present token', async () => {
  const refused = await post('/agents/new', { name: 'typed before', csrf: 'of-an-ended-session' });
  expect(refused.status).toBe(403);
  expect(refused.text).toContain(`name="csrf" value="${csrf}"`);
  expect(refused.text).toContain('value="typed before"');
});

test('a page that does not exist offers no form to send again', async () => {
  const refused = await post('/webhooks/00000000-0000-4000-8000-000000000000/edit', { name: 'gone' });
  expect([refused.status, refused.text.includes('Retry')]).toEqual([404, false]);
});

describe('while a value is shown that is shown only once', () => {
  test('a new webhook offers nothing that would replace the page, and opens links beside it', async () => {
    const { text } = await post('/webhooks/new', { name: 'made', secret_choice: 'generate' });
    const secret = /<code>([0-9a-f]{64})<\/code>/.exec(text)![1]!;
    expect(text).toContain('<base target="_blank">');
    const address = /href="(\/webhooks\/[0-9a-f-]{36})" target="_self" data-stored/.exec(text)![1]!;
    for (const action of ['test', 'switch', 'rotate', 'delete', 'edit'])
      expect(text).not.toContain(`${address}/${action}`);
    expect(text).toContain(`data-copy="${secret}"`);
    expect(text).toContain(`data-copy="WEIR_SECRET=${secret}"`);
    expect(text).toContain(`data-copy="export WEIR_SECRET=&#39;${secret}&#39;\n`);
    const stored = await get(address);
    expect(stored).not.toContain(secret);
    expect(stored).not.toContain('<base');
    expect(stored).toContain(`${address}/test`);
  });

  test('a new agent and a rotated one do the same', async () => {
    const made = await post('/agents/new', { name: 'made just now', current_password: PASSWORD });
    const address = /href="(\/agents\/[0-9a-f-]{36})" target="_self" data-stored/.exec(made.text)![1]!;
    expect(made.headers.get('hx-push-url')).toBe(address);
    expect(made.text).not.toContain(`${address}/rotate`);
    const rotated = await post(`${address}/rotate`, { confirmed: 'yes', current_password: PASSWORD });
    expect(rotated.text).toContain('data-copy="WEIR_CREDENTIAL=wa_');
    expect(rotated.text).not.toContain(`${address}/edit`);
    expect(await get(address)).toContain(`${address}/edit`);
  });

  test('a new token has its .env line', async () => {
    const fields = { name: 'nightly', role: 'viewer', expires: '30', current_password: PASSWORD };
    const { text, headers } = await post('/account/tokens/new', fields);
    expect(headers.get('cache-control')).toBe('no-store');
    expect(text).toMatch(/data-copy="WEIR_TOKEN=wu_/);
    expect(text).toContain('<base target="_blank">');
  });
});

test('the agent that gets the deliveries of a revoked one is kept when it is not found', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  await send(webhook);
  await administrator.api('DELETE', `/api/v1/agents/${agent.id}`);
  const refused = await post(`/agents/${agent.id}/undelivered`, { do: 'move', to_agent_id: 'nobody' });
  expect(refused.status).toBe(422);
  expect(refused.text).toContain('<option value="nobody" selected>');
});

test('the overlap of a rotation is kept when the password is wrong, and the page shows the old credential', async () => {
  const address = `/agents/${(await addAgent(app)).id}`;
  const chosen = (text: string) => /<option value="(\d+)" selected/.exec(text)?.[1];
  expect(chosen(await get(address))).toBe('86400');
  const refused = await post(`${address}/rotate`, {
    confirmed: 'yes',
    overlap_seconds: '0',
    current_password: 'wrong',
  });
  expect([refused.status, chosen(refused.text)]).toEqual([403, '0']);
  expect(await get(address)).not.toContain('Old credential');
  await post(`${address}/rotate`, { confirmed: 'yes', overlap_seconds: '3600', current_password: PASSWORD });
  expect(await get(address)).toMatch(/Old credential<\/dt><dd>Not used since the rotation; expires <time/);
});

test('the form of an agent says that its list of webhooks is cut, keeps those it has, and adds others by name', async () => {
  const [rare, second] = [await app.addWebhook({ name: 'Rare bird' }), await app.addWebhook({ name: 'Second' })];
  await app.sql(`insert into webhooks (id, name, created_at)
           select gen_random_uuid(), 'Shop ' || i, now() + i * interval '1 second' from generate_series(1, 250) i`);
  const form = await get('/agents/new');
  expect(form).toContain('The list has the newest 200 webhooks, and not all of them.');
  expect(form).not.toContain('Rare bird');
  const { id } = (await administrator.api('POST', '/api/v1/agents', { name: 'bot', webhook_ids: [rare.id] })).body;
  expect(await get(`/agents/${id}/edit`)).toContain(`value="${rare.id}" checked`);
  const save = (added: string) =>
    administrator.submit(`/agents/${id}/edit`, [
      ['name', 'bot'],
      ['webhook_ids', rare.id],
      ['webhook_ids', added],
    ]);
  const refused = await save('Shop');
  expect(refused.text).toContain('Many webhooks have “Shop” in their name.');
  expect(refused.text).toMatch(/name="webhook_ids" type="text" value="Shop"/);
  expect((await save('second')).status).toBe(303);
  const { first_webhook_ids } = (await administrator.api('GET', `/api/v1/agents/${id}`)).body;
  expect(first_webhook_ids).toEqual([rare.id, second.id].sort());

  // A filter of a list takes names too.
  const filter = (name: string) => get(`/events?webhook_id=${encodeURIComponent(name)}`);
  expect(await filter('RARE')).toContain('name="webhook_id" type="text" value="Rare bird"');
  expect(await filter('nowhere')).toContain('No webhook has “nowhere” in its name.');
});

test('a change of another user is not overwritten silently, and the form says what changed', async () => {
  const made = await app.addWebhook({ name: 'of two people' });
  const wasIn = (page: string) => /name="was" value="([^"]+)"/.exec(page)![1]!.replaceAll('&quot;', '"');
  const was = wasIn(await get(`/webhooks/${made.id}/edit`));
  await administrator.api('PATCH', `/api/v1/webhooks/${made.id}`, { name: 'by the other' });
  const save = (was: string) => post(`/webhooks/${made.id}/edit`, { name: 'by me', signature_scheme: 'sha256', was });
  const refused = await save(was);
  expect(refused.text).toContain(
    'It was changed after you opened this form: name from “of two people” to “by the other”. Save again',
  );
  expect(refused.text).toContain('value="by me"');
  expect((await save(wasIn(refused.text))).status).toBe(303);
});
