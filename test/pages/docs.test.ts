/** The guides on the pages: rendered by the build, readable by anyone. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { FOUND_MAX, type Guide, SEARCH_CHARACTERS_MAX, searchGuides } from '../../server/pages/docs.ts';
import { Renderer } from '../../server/pages/serve/answers.ts';
import { documents, headingsOf, root } from '../docs/documents.ts';
import { startTestApp } from '../helpers/app.ts';
import { addPerson } from '../helpers/people.ts';
import { ofTest, shared } from '../helpers/shared.ts';

const paths = Object.keys(documents).filter((path) => path.startsWith('views/docs/'));
const names = paths.map((path) => path.slice('views/docs/'.length, -'.md'.length));
const guides: Guide[] = JSON.parse(readFileSync(join(root, 'dist/views/docs/guides.json'), 'utf8'));

const app = shared(startTestApp);

const read = async (path: string) => {
  const answer = await fetch(`${app.url}${path}`, { headers: { accept: 'text/html' } });
  return { status: answer.status, html: await answer.text(), headers: answer.headers };
};

test('the index lists every guide, without signing in', async () => {
  const { status, html, headers } = await read('/docs');
  expect(status).toBe(200);
  expect(headers.get('content-security-policy')).toContain("script-src 'self'");
  expect(names.filter((name) => !html.includes(`href="/docs/${name}"`))).toEqual([]);
});

test.each(names)('the guide %s has the anchors of GitHub, and links only to anchors that exist', async (name) => {
  const { status, html } = await read(`/docs/${name}`);
  expect(status).toBe(200);
  const wanted = headingsOf(documents[`views/docs/${name}.md`]!).map(({ anchor }) => anchor);
  const shown = /<article[\s\S]*<\/article>/.exec(html)![0];
  expect([...shown.matchAll(/<h\d id="([^"]*)">/g)].map(([, anchor]) => anchor)).toEqual(wanted);
  const links = [...shown.matchAll(/href="([^"]+)"/g)]
    .map(([, href]) => href!)
    .filter((href) => !/^https?:/.test(href));
  const broken = links.filter((href) => {
    const [path, anchor] = href.split('#') as [string, string?];
    if (path === '/docs') return false;
    const target = guides.find((guide) => guide.name === (path === '' ? name : path.slice('/docs/'.length)));
    return target === undefined || (anchor !== undefined && !target.sections.some((one) => one.anchor === anchor));
  });
  expect(broken).toEqual([]);
});

describe('a guide', () => {
  test('has the security headers of the pages, and runs no script of its own', async () => {
    const { headers, html } = await read('/docs/agents');
    const policy = headers.get('content-security-policy')!;
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self'");
    expect(policy).not.toContain('unsafe');
    expect(/<article[\s\S]*<\/article>/.exec(html)![0]).not.toMatch(/<script|<style| style=| on\w+=/);
  });

  test('is answered 304 for its entity tag, and 200 for another', async () => {
    const etag = (await read('/docs/agents')).headers.get('etag')!;
    const known = (tag: string) => fetch(`${app.url}/docs/agents`, { headers: { 'if-none-match': tag } });
    const same = await known(etag);
    expect([same.status, await same.text(), same.headers.get('etag')]).toEqual([304, '', etag]);
    expect((await known('W/"other"')).status).toBe(200);
  });

  test('labels each of its tables, no two the same', async () => {
    const { html } = await read('/docs/reference');
    const labels = [...html.matchAll(/<div class="scroll" tabindex="0" role="region" aria-label="([^"]+)"><table>/g)];
    expect(labels.length).toBe(html.match(/<table>/g)!.length);
    expect(new Set(labels.map(([, label]) => label)).size).toBe(labels.length);
  });
});

describe('without signing in', () => {
  test.each<[string, Record<string, string>]>([
    ['for a browser', {}],
    ['with any query', {}],
    ['for htmx', { 'hx-request': 'true' }],
    ['in the dark', { cookie: 'weir_appearance=dark.compact' }],
  ])('a guide is rendered and compressed once %s', async (query, fields) => {
    const rendering = vi.spyOn(Renderer.prototype, 'render');
    onTestFinished(() => rendering.mockRestore());
    const ask = async (n: number) => {
      const address = `${app.url}/docs/agents${query === 'with any query' ? `?n=${n}` : ''}`;
      const { status, headers } = await fetch(address, { headers: { accept: 'text/html', ...fields } });
      return [status, headers.get('etag')];
    };
    const first = await ask(0);
    expect(first[0]).toBe(200);
    const before = rendering.mock.calls.length;
    for (let n = 1; n < 4; n++) expect(await ask(n)).toEqual(first);
    expect(rendering.mock.calls.length).toBe(before);
  });

  test('a stored page is of the appearance that the browser chose, and not that of a user', async () => {
    const shown = async (cookie: string) =>
      (await fetch(`${app.url}/docs/agents`, { headers: { accept: 'text/html', cookie } })).text();
    const usual = await shown('');
    expect(await shown('weir_appearance=dark.comfortable')).toContain('data-theme="dark"');
    const person = await addPerson(app, 'viewer');
    expect(await shown(person.cookie)).toContain(person.email);
    expect([await shown(''), await shown('weir_appearance=nonsense')]).toEqual([usual, usual]);
    expect(usual).not.toContain(person.email);
  });
});

test('an unknown guide is 404, as a page or, for a program that asks for JSON, as a problem', async () => {
  expect(await read('/docs/nonsense')).toMatchObject({ status: 404, html: expect.stringContaining('<html') });
  const answer = await fetch(`${app.url}/docs/nonsense`, { headers: { accept: 'application/json' } });
  expect([answer.status, answer.headers.get('content-type')]).toEqual([404, 'application/problem+json']);
  expect(await answer.json()).toMatchObject({ code: 'not_found', detail: 'No guide has this name; /docs lists them.' });
});

test('requests count against the limit of anonymous clients', async () => {
  const limited = await ofTest(startTestApp({ RATE_LIMIT_ANONYMOUS_MAX: '2' }));
  const statuses = [];
  for (let i = 0; i < 3; i++) statuses.push((await fetch(`${limited.url}/docs`)).status);
  expect(statuses).toEqual([200, 200, 429]);
});

describe('the search', () => {
  test('finds a setting, links to its section and marks the words', async () => {
    const { html } = await read('/docs?q=WEBHOOK_MAX_PAYLOAD_BYTES');
    expect(html).toMatch(/<a href="\/docs\/[\w-]+#[\w-]+" hx-boost="false">/);
    expect(html).toContain('<mark>WEBHOOK_MAX_PAYLOAD_BYTES</mark>');
  });

  test('puts sections first whose heading has the words', () => {
    expect(searchGuides(guides, 'filters')[0]!.heading).toBe('Filters');
  });

  test('needs every word', () => {
    expect(searchGuides(guides, 'webhook xyzzy')).toEqual([]);
  });

  test('escapes what is sought, and takes it literally', async () => {
    const { status, html } = await read(`/docs?q=${encodeURIComponent('<script>alert(1)</script> .*')}`);
    expect(status).toBe(200);
    expect(html).toContain('value="&lt;script&gt;alert(1)&lt;/script&gt; .*"');
    expect(html).not.toContain('<script>alert');
    expect(searchGuides(guides, 'webhook.id(')).toEqual([]);
  });

  test(`returns at most ${FOUND_MAX} sections, and reads at most ${SEARCH_CHARACTERS_MAX} characters`, async () => {
    expect(searchGuides(guides, 'the')).toHaveLength(FOUND_MAX);
    const { html } = await read(`/docs?q=${'a'.repeat(SEARCH_CHARACTERS_MAX + 1)}`);
    expect(html).toContain(`value="${'a'.repeat(SEARCH_CHARACTERS_MAX)}"`);
  });
});
