/** Every page is valid HTML, by html-validate: its rules of the standard and of accessibility. */
import { HtmlValidate } from 'html-validate';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pageRoutes } from '../../server/manage/api/routes.ts';
import { addAgent, send } from '../helpers/agents.ts';
import type { TestApp } from '../helpers/app.ts';
import { startPagesApp } from '../helpers/browser.ts';
import { addPerson, csrfToken, PASSWORD, type TestPerson } from '../helpers/people.ts';
import { signedRequest } from '../helpers/requests.ts';
import { until } from '../helpers/wait.ts';

const validator = new HtmlValidate({
  root: true,
  extends: ['html-validate:standard', 'html-validate:a11y'],
  elements: ['html5'],
  rules: {
    // A name that begins with a digit needs no escape where it is used: ids of records are parts of names.
    'valid-id': ['error', { relaxed: true }],
    // A button without a type submits its form, which is what most do.
    'no-implicit-button-type': 'off',
    // The field of the search is sent by Enter.
    'wcag/h32': 'off',
    'prefer-native-element': ['error', { exclude: ['region'] }],
    'aria-label-misuse': ['error', { allowAnyNamable: true }],
  },
});

/** What is wrong with the HTML: rule, message and place. */
async function problemsOf(html: string): Promise<string[]> {
  const { results } = await validator.validateString(html);
  return results.flatMap(({ messages }) =>
    messages.map(
      ({ ruleId, message, line }) => `${ruleId}: ${message} | ${html.split('\n')[line - 1]!.trim().slice(0, 200)}`,
    ),
  );
}

let app: TestApp;
let administrator: TestPerson;
const ids: Record<string, string[]> = {};
beforeAll(async () => {
  app = await startPagesApp({ RATE_LIMIT_AGENT_AUTH_MAX: 1_000_000 });
  administrator = await addPerson(app, 'administrator', PASSWORD);
  const { api } = administrator;
  const webhook = await app.addWebhook({ name: 'Orders & more', event_type_from: 'json:/type' });
  const slack = await api('POST', '/api/v1/webhooks', { name: 'slack', signature_scheme: 'slack', secret: 'of Slack' });
  const [agent, revoked] = await Promise.all([addAgent(app, [webhook]), addAgent(app, [webhook])]);
  const event = await send(webhook, '{"type":"order.paid","lines":[{"sku":"a"}]}');
  await send(webhook, '{"type":"order.sent"}');
  const { receipt } = await agent.claimOne();
  await agent.nack([receipt], { reason: 'no such shelf' });
  await api('DELETE', `/api/v1/agents/${revoked.id}`);
  await app.database.query({
    text: `update deliveries set state = 'dead', finished_at = now(), reason = 'no such shelf' where agent_id = $1`,
    values: [agent.id],
  });
  for (const secret of [null, 'wrong', 'wrong'])
    expect((await fetch(webhook.url, signedRequest({ secret, body: '{}' }))).status).toBe(403);
  const first = async (path: string) => (await api('GET', path)).body.items;
  const rejections = await until(async () => {
    const items = await first('/api/v1/rejections');
    return items.length > 1 && items;
  });
  const job = (await api('POST', '/api/v1/events/replay', { webhook_id: webhook.id })).body.id;
  const invited = { email: 'invited@example.org', name: '', role: 'viewer', invite: true, current_password: PASSWORD };
  const user = (await administrator.browse('POST', '/api/v1/users', invited)).body.id;
  Object.assign(ids, {
    webhooks: [webhook.id, slack.body.id],
    agents: [agent.id, revoked.id],
    events: [event],
    rejections: rejections.map(({ id }: { id: string }) => id),
    deliveries: (await first('/api/v1/deliveries')).map(({ id }: { id: string }) => id),
    jobs: [job],
    users: [user, administrator.id],
    tokens: [(await first('/api/v1/tokens'))[0].id],
    audit: ['1', '3'],
    docs: ['agents', 'pages', 'reference'],
  });
});
afterAll(() => app?.stop());

/** A page with these of its ids, or the path alone. */
const addresses = (path: string) => {
  const folder = path.split('/')[1]!;
  return path.includes(':') ? (ids[folder] ?? []).map((id) => path.replace(/:\w+/, id)) : [path];
};

const more = [
  '/events?type=order.*',
  '/events?q=order&from=2026-01-01T00:00:00Z&source=nowhere',
  '/deliveries?state=dead',
  '/deliveries?state=dismissed',
  '/audit?action=session.',
  '/webhooks/new?scheme=slack',
  '/webhooks/new?scheme=custom',
  '/search?q=order',
  '/no-such-page',
];

test('every page that is opened', async () => {
  const paths = pageRoutes.filter(([method, path]) => method === 'GET' && !/^\/(oidc|invitation|setup)/.test(path));
  const all = [...paths.flatMap(([, path]) => addresses(path)), ...more];
  const found: Record<string, string[]> = {};
  for (const path of all) {
    const headers = { cookie: administrator.cookie, accept: 'text/html' };
    const answer = await fetch(app.url + path, { headers });
    const problems = await problemsOf(await answer.text());
    if (problems.length > 0) found[path] = [...new Set(problems)];
  }
  expect(all.length).toBeGreaterThan(60);
  expect(found).toEqual({});
});

test('the pages of visitors, and those that forms show', async () => {
  const csrf = await csrfToken(app.url, administrator.cookie);
  const post = async (path: string, fields: Record<string, string>) =>
    (
      await fetch(app.url + path, {
        method: 'POST',
        headers: { cookie: administrator.cookie, origin: app.url },
        body: new URLSearchParams({ csrf, ...fields }),
      })
    ).text();
  const pages = {
    signIn: await (await fetch(`${app.url}/sign-in`, { headers: { accept: 'text/html' } })).text(),
    made: await post('/webhooks/new', { name: 'made', signature_scheme: 'github', secret_choice: 'generate' }),
    refused: await post('/webhooks/new', { name: '', signature_scheme: 'nothing', secret_choice: 'given' }),
    token: await post('/account/tokens/new', {
      name: 'nightly',
      role: 'viewer',
      expires: '30',
      current_password: PASSWORD,
    }),
    unconfirmed: await post(`/webhooks/${ids.webhooks![0]}/switch`, { enabled: 'false' }),
    filter: await post(`/agents/${ids.agents![0]}/filter`, {
      webhook_id: ids.webhooks![0]!,
      filter: 'bytes > 1',
      try: '1',
    }),
  };
  for (const [name, html] of Object.entries(pages)) expect([name, await problemsOf(html)]).toEqual([name, []]);
});
