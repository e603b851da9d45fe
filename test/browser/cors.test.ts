/** The API from pages of other origins in a real browser, which enforces CORS. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TestApp } from '../helpers/app.ts';
import { openTab, startPagesApp, type Tab } from '../helpers/browser.ts';
import { addPerson, PASSWORD } from '../helpers/people.ts';

let app: TestApp;
let pages: { ours: Server; others: Server };
/** Tabs of a browser that is signed in, on a page of CORS_ORIGINS and on one that is not. */
let ours: Tab;
let others: Tab;
beforeAll(async () => {
  pages = { ours: await servePage(), others: await servePage() };
  app = await startPagesApp({ CORS_ORIGINS: originOf(pages.ours) });
  const operator = await addPerson(app, 'operator', PASSWORD);
  ours = await openTab(app, operator);
  await ours.page.goto(originOf(pages.ours));
  others = await openTab(app, operator);
  await others.page.goto(originOf(pages.others));
});
afterAll(async () => {
  for (const server of Object.values(pages)) server.close();
  await app.stop();
});

function servePage(): Promise<Server> {
  const server = createServer((_request, response) => response.setHeader('content-type', 'text/html').end('<p>A page'));
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}

const originOf = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

interface Seen {
  status: number;
  /** Fields that the script may read. */
  fields: Record<string, string>;
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into by tests
  body: any;
}

/** What a script of the page sees of an answer; a text when the browser refuses. */
function fetchIn({ page }: Tab, path: string, init: RequestInit = {}): Promise<Seen | string> {
  return page.evaluate(
    async ([url, init]) => {
      try {
        const answer = await fetch(url, { credentials: 'include', ...init });
        const text = await answer.text();
        return {
          status: answer.status,
          fields: Object.fromEntries(answer.headers),
          body: text === '' ? null : JSON.parse(text),
        };
      } catch (error) {
        return String(error);
      }
    },
    [app.url + path, init] as const,
  );
}

const refused = 'TypeError: Failed to fetch';
const json = (body: object, headers: Record<string, string> = {}) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(body),
});

test('a page of CORS_ORIGINS reads, changes with the CSRF token, and sees the Location of what it created', async () => {
  const account = (await fetchIn(ours, '/api/v1/account')) as Seen;
  expect([account.status, account.body.role]).toEqual([200, 'operator']);
  const made = (await fetchIn(
    ours,
    '/api/v1/tokens',
    json({ name: 'from elsewhere', current_password: PASSWORD }, { 'x-csrf-token': account.body.csrf_token }),
  )) as Seen;
  expect(made.status).toBe(201);
  expect(made.fields.location).toBe(`/api/v1/tokens/${made.body.id}`);
  const asked = { headers: { authorization: `Bearer ${made.body.token}` } };
  expect(await fetchIn(ours, '/api/v1/account', asked)).toMatchObject({ status: 200, body: { csrf_token: null } });
  const revoked = { method: 'DELETE', headers: { 'x-csrf-token': account.body.csrf_token } };
  expect(await fetchIn(ours, `/api/v1/tokens/${made.body.id}`, revoked)).toMatchObject({ status: 204 });
  expect(await fetchIn(ours, '/api/v1/account', asked)).toMatchObject({ status: 401 });
});

describe('a page of another origin', () => {
  test('reads nothing, although the browser is signed in', async () => {
    for (const path of ['/api/v1/account', '/api/v1/nowhere', '/api/v1/agent/me'])
      expect(await fetchIn(others, path)).toBe(refused);
    expect(await fetchIn(others, '/api/v1/tokens', json({ name: 'a' }))).toBe(refused);
  });

  test('changes nothing with a request that needs no preflight', async () => {
    const form = { method: 'POST', headers: { 'content-type': 'text/plain' }, body: '{"name":"forged"}' };
    await fetchIn(others, '/api/v1/tokens', { ...form, mode: 'no-cors' });
    expect(await fetchIn(others, '/api/v1/tokens', form)).toBe(refused);
    const rows = await app.sql(`select from api_tokens where name = 'forged'`);
    expect(rows).toEqual([]);
    const statuses = app.logLines
      .map((line) => JSON.parse(line))
      .filter(({ path, method }) => path === '/api/v1/tokens' && method === 'POST');
    expect(statuses.at(-1)).toMatchObject({ status: 403 });
  });

  test('cannot embed a response', async () => {
    const loaded = await others.page.evaluate(`new Promise((resolve) => {
      const image = new Image();
      image.onload = () => resolve('loaded');
      image.onerror = () => resolve('refused');
      image.src = '${app.url}/api/v1/account';
    })`);
    expect(loaded).toBe('refused');
    // The reason is the field of the answer: same-site pages are refused too.
    expect(others.complaints.join('\n')).toContain('ERR_BLOCKED_BY_RESPONSE.NotSameOrigin');
  });
});
