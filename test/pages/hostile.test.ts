/** URLs and stored texts that try to become code, markup or an inherited member of an object: every page, every parameter. */
import { beforeAll, describe, expect, test } from 'vitest';
import { pageRoutes } from '../../server/manage/api/routes.ts';
import { addAgent } from '../helpers/agents.ts';
import { startPagesApp } from '../helpers/browser.ts';
import { type HostileTexts, MARKUP, sendHostileTexts } from '../helpers/hostile.ts';
import { addPerson } from '../helpers/people.ts';
import { shared } from '../helpers/shared.ts';

const app = shared(startPagesApp);
const person = shared(() => addPerson(app, 'administrator'));
let sent: HostileTexts;
let ids: Record<string, string>;
beforeAll(async () => {
  sent = await sendHostileTexts(app, person);
  await person.api('POST', '/api/v1/tokens', { name: MARKUP });
  await app.sql('update users set name = $2, email = $2 where id = $1', person.id, MARKUP);
  const agent = await addAgent(app, [sent.webhook]);
  const tokens = (await person.api('GET', '/api/v1/tokens')).body.items;
  await person.api('POST', `/api/v1/events/${sent.eventId}/replay`, {});
  const deliveries = (await person.api('GET', '/api/v1/deliveries')).body.items;
  ids = {
    webhooks: sent.webhook.id,
    events: sent.eventId,
    rejections: sent.rejectionId,
    agents: agent.id,
    users: person.id,
    tokens: tokens[0].id,
    deliveries: deliveries[0].id,
    audit: '1',
  };
});

const parameters = [
  ...['notice', 'count', 'view', 'q', 'cursor', 'webhook_id', 'agent_id', 'state', 'delivery_state', 'content_type'],
  ...['source', 'from', 'to', 'role', 'reason', 'revoked', 'enabled', 'action', 'actor_id', 'target_id', 'head'],
  ...['all', 'type', 'header', 'user_id', 'return_to', 'error', 'code'],
];
const inherited = ['constructor', 'toString', 'valueOf', 'hasOwnProperty', '__proto__'];
const pages = pageRoutes.filter(([method]) => method === 'GET').map(([, path]) => path);

async function open(path: string, query: string) {
  const answer = await fetch(`${app.url}${path}?${query}`, { headers: { cookie: person.cookie }, redirect: 'manual' });
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
}

const addressOf = (path: string) => path.replace(':id', ids[path.split('/')[1]!] ?? 'none');

describe.each(pages)('%s', (path) => {
  test('shows no inherited member for any URL', async () => {
    for (const name of inherited) {
      const { status, text } = await open(addressOf(path), parameters.map((one) => `${one}=${name}`).join('&'));
      expect(status, name).toBeLessThan(500);
      expect(text, name).not.toMatch(/\[object |\[native code\]|undefined/);
    }
  });

  test('shows markup of URLs and requests as text', async () => {
    const query = parameters.map((one) => `${one}=${encodeURIComponent(MARKUP)}`).join('&');
    for (const { status, text } of [await open(addressOf(path), ''), await open(addressOf(path), query)]) {
      expect(status).toBeLessThan(500);
      expect(text).not.toContain('<script>alert');
      expect(text).not.toContain('<img');
    }
  });
});

/** The names of the fields of all forms, other than those that a page needs to carry out what the user wants. */
const fields = [
  ...['snooze', 'assignee', 'note', 'mine', 'do', 'kind', 'scheme', 'secret', 'public_key', 'secret_choice', 'event'],
  ...['type', 'state', 'reason', 'role', 'expires', 'overlap_seconds', 'cell', 'enabled', 'paused', 'theme', 'density'],
  ...['name', 'signature_scheme', 'scheme_definition', 'answer', 'agent_id', 'agent_ids', 'webhook_id', 'webhook_ids'],
  ...['filter', 'order_by', 'headers', 'body', 'content_type', 'email', 'view', 'was', 'id', 'add', 'to_agent_id'],
];
const forms = pageRoutes.filter(([method, path]) => method === 'POST' && !/sign-|session|delete/.test(path));

test.each(forms.map(([, path]) => path))('the form %s takes no field for an inherited member', async (path) => {
  for (const name of inherited) {
    const given: Record<string, string> = Object.fromEntries(fields.map((field) => [field, name]));
    const { status, text } = await person.submit(addressOf(path), given);
    expect([name, status]).toEqual([name, expect.toSatisfy((one: number) => one < 500)]);
    expect(text, name).not.toMatch(/\[object |\[native code\]|undefined/);
  }
});

test('a list keeps a filter named like an inherited member', async () => {
  const { status, text } = await open('/events', 'webhook_id=constructor');
  expect(status).toBe(422);
  expect(text).toContain('<option value="constructor" selected>');
});

test('a line end in a URL starts no header field', async () => {
  const injected = '%0d%0aset-cookie:%20owned=1';
  for (const path of [`/events/${injected}`, `/sign-in?return_to=/${injected}`, `/webhooks?q=${injected}`]) {
    const { headers } = await fetch(`${app.url}${path}`, { redirect: 'manual' });
    expect(headers.get('set-cookie') ?? '').not.toContain('owned');
    expect(headers.get('location') ?? '').not.toMatch(/[\r\n]/);
  }
});

test.each(inherited)('a change of %s in the database is passed over', async (name) => {
  await expect(app.app.change(`${name}:${sent.webhook.id}`)).resolves.toBeUndefined();
});
