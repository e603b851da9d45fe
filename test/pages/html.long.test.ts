/** Every page is valid HTML, by html-validate: its rules of the standard and of accessibility. */
import { HtmlValidate } from 'html-validate';
import { beforeAll, expect, test } from 'vitest';
import { pageRoutes } from '../../server/manage/api/routes.ts';
import { send } from '../helpers/agents.ts';
import { addPerson, PASSWORD, type TestPerson } from '../helpers/people.ts';
import { shared } from '../helpers/shared.ts';
import { makeWorld } from '../helpers/world.ts';

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

/** `1 events`, where the words are those of Weir and not of a body. */
function wrongPluralsOf(html: string): string[] {
  const text = html.replace(/<(script|pre|textarea)\b.*?<\/\1>/gs, '').replace(/<[^>]*>/g, ' ');
  return (
    text.match(
      /(?<![\d.,:-])1 (?:events|requests|deliveries|dead letters|webhooks|agents|users|bytes|attempts|rejections|issues|changes|entries|values|members|days|hours|minutes|seconds)\b/g,
    ) ?? []
  );
}

const world = shared(makeWorld);
let administrator: TestPerson;
const ids: Record<string, string[]> = {};
beforeAll(async () => {
  administrator = await addPerson(world.app, 'administrator', PASSWORD);
  const { api } = administrator;
  const idOf = async (path: string, body: object) => (await api('POST', path, body)).body.id;
  const slack = { name: 'slack & more', signature_scheme: 'slack', secret: 'of Slack' };
  const invited = { email: 'invited@example.org', name: '', role: 'viewer', invite: true };
  const [revoked] = await Promise.all(['agents', 'rejections', 'deliveries'].map(world.make));
  await api('DELETE', `/api/v1/agents/${revoked}`);
  expect((await fetch(world.webhook.url, { method: 'POST', body: '{}' })).status).toBe(403);
  const idsOf = async (path: string) => (await api('GET', path)).body.items.map(({ id }: { id: string }) => id);
  Object.assign(ids, {
    webhooks: [world.webhook.id, await idOf('/api/v1/webhooks', slack)],
    agents: [world.agent.id, revoked],
    // The page of an event of one byte has a count of one.
    events: [world.event, await send(world.webhook, '1')],
    rejections: await idsOf('/api/v1/rejections'),
    deliveries: await idsOf('/api/v1/deliveries'),
    users: [await idOf('/api/v1/users', invited), administrator.id],
    replays: [await world.make('jobs')],
    tokens: await idsOf('/api/v1/tokens'),
    audit: ['1', '3'],
    docs: ['agents', 'pages', 'reference'],
  });
});

/** A page with these of its ids, or the path alone. */
const addresses = (path: string) => {
  const [, kind] = /(\w+)\/:/.exec(path) ?? [];
  return kind ? (ids[kind] ?? []).map((id) => path.replace(/:\w+/, id)) : [path];
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
  const refused: string[] = [];
  for (const path of all) {
    const { status, text } = await administrator.browse('GET', path, undefined, { accept: 'text/html' });
    if (status >= 400) refused.push(path);
    const problems = [...(await problemsOf(text)), ...wrongPluralsOf(text)];
    if (problems.length > 0) found[path] = [...new Set(problems)];
  }
  expect(all.length).toBeGreaterThan(60);
  expect(refused).toEqual(more.filter((path) => /nowhere|no-such/.test(path)));
  expect(found).toEqual({});
});

test('the pages of visitors, and those that forms show', async () => {
  const post = async (path: string, fields: Record<string, string>) => {
    const { location, text } = await administrator.submit(path, fields);
    return location === null ? text : administrator.page(location);
  };
  const token = { name: 'nightly', role: 'viewer', expires: '30', current_password: PASSWORD };
  const pages = {
    signIn: await (await fetch(`${world.app.url}/sign-in`, { headers: { accept: 'text/html' } })).text(),
    made: await post('/webhooks/new', { name: 'made', signature_scheme: 'github', secret_choice: 'generate' }),
    refused: await post('/webhooks/new', { name: '', signature_scheme: 'nothing', secret_choice: 'given' }),
    token: await post('/account/tokens/new', token),
    unconfirmed: await post(`/webhooks/${ids.webhooks![0]}/switch`, { enabled: 'false' }),
    filter: await post(`/agents/${ids.agents![0]}/filter`, {
      webhook_id: ids.webhooks![0]!,
      filter: 'bytes > 1',
      try: '1',
    }),
  };
  for (const [name, html] of Object.entries(pages)) expect([name, await problemsOf(html)]).toEqual([name, []]);
});
