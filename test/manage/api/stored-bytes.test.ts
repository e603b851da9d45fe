import { describe, expect, test } from 'vitest';
import { startTestApp } from '../../helpers/app.ts';
import { BODY, sendHostileTexts } from '../../helpers/hostile.ts';
import { addPerson } from '../../helpers/people.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(() => startTestApp({ CORS_ORIGINS: 'https://pages.example' }));
const viewer = shared(() => addPerson(app, 'viewer'));
const sent = shared(() => sendHostileTexts(app, viewer));

const open = (path: string, headers: Record<string, string> = {}) =>
  fetch(app.url + path, { headers: { cookie: viewer.cookie, ...headers } });

describe.each<[string, () => string, () => string]>([
  ['an event', () => sent.eventId, () => `/api/v1/events/${sent.eventId}/body`],
  ['a refused request', () => sent.rejectionId, () => `/api/v1/rejections/${sent.rejectionId}/body`],
])('the body of %s', (_, id, path) => {
  test('is a download that no browser runs, for any content type of the sender', async () => {
    const answer = await open(path());
    expect(answer.status).toBe(200);
    expect(Buffer.from(await answer.arrayBuffer())).toEqual(BODY);
    const { headers } = answer;
    expect(headers.get('content-type')).toBe('application/octet-stream');
    expect(headers.get('content-disposition')).toBe(`attachment; filename="${id()}"`);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('content-security-policy')).toContain("sandbox; default-src 'none'");
  });

  test('has the content type of the sender in a separate header, in visible ASCII', async () => {
    const type = (await open(path())).headers.get('x-weir-content-type')!;
    expect(type).toMatch(/^text\/javascript; a="\?+<script>alert\(1\)[ -~]+\?+31m"$/);
  });

  test('lets a page of CORS_ORIGINS read that header', async () => {
    const { headers } = await open(path(), { origin: 'https://pages.example' });
    expect(headers.get('access-control-expose-headers')).toContain('x-weir-content-type');
  });
});

test('a stored body without a content type has no header with the type of the sender', async () => {
  const webhook = await app.addWebhook({ secret: null });
  const stored = await fetch(webhook.url, { method: 'POST', body: new Uint8Array([1]) });
  const { headers } = await open(`/api/v1/events/${((await stored.json()) as { id: string }).id}/body`);
  expect([headers.get('x-weir-content-type'), headers.get('content-type')]).toEqual([null, 'application/octet-stream']);
});

test('the OpenAPI document describes the type and the header of a stored body', async () => {
  const { paths } = (await viewer.api('GET', '/api/v1/openapi.json')).body;
  for (const path of ['/api/v1/events/{id}/body', '/api/v1/rejections/{id}/body']) {
    const { content, headers } = paths[path].get.responses[200];
    expect(Object.keys(content)).toEqual(['application/octet-stream']);
    expect(Object.keys(headers)).toEqual(['X-Request-Id', 'X-Weir-Content-Type']);
  }
});

test('a stored body with a content type has it unchanged in the header', async () => {
  const webhook = await app.addWebhook();
  const stored = await fetch(webhook.url, signedRequest({ secret: webhook.secret }));
  const { headers } = await open(`/api/v1/events/${((await stored.json()) as { id: string }).id}/body`);
  expect(headers.get('x-weir-content-type')).toBe('application/json');
});
