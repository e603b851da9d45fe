/** The buttons that fix a rejection, the groups of rejections with one reason, and requests to unknown URLs. */
import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import { Tally } from '../../../server/manage/live/tally.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson } from '../../helpers/people.ts';
import { signatureOf, signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const SECRET = 'what the sender has 51c0';
const BODY = '{"order":17}';

const app = shared(startPagesApp);
const operator = shared(() => addPerson(app, 'operator'));
const viewer = shared(() => addPerson(app, 'viewer'));

const get = (path: string, person = operator) => person.page(path);

const post = (path: string, fields: Record<string, string>) => operator.submit(path, fields);

/** Sends requests with the signature in this header, all refused; returns the id of the newest rejection. */
async function refuse({ id, url }: TestWebhook, header: string, count: number, secret = SECRET): Promise<string> {
  const headers = { 'content-type': 'application/json', [header]: signatureOf(secret, BODY) };
  for (let i = 0; i < count; i++) expect((await fetch(url, { method: 'POST', body: BODY, headers })).status).toBe(403);
  return until(async () => {
    const { items } = (await operator.api('GET', `/api/v1/rejections?webhook_id=${id}`)).body;
    return items.length === count && items[0].id;
  });
}

/** The headings of the coloured boxes of a page, and the text of its notices. */
const boxes = (page: string) =>
  [...page.matchAll(/<(?:section|div|p) class="(?:notice|alert)[^"]*"[^>]*>\s*(?:<h2[^>]*>|<span>)([^<]*)</g)].map(
    ([, text]) => text,
  );

test('a group says how many, from where and how to fix it, and one button fixes all', async () => {
  const webhook = await app.addWebhook({ name: 'orders', secret: SECRET });
  const id = await refuse(webhook, 'x-signature', 4);
  const page = await get('/rejections');
  expect(page).toMatch(
    /4 × <a href="\/rejections\/[0-9a-f-]{36}">signature in another header<\/a> in <code>x-signature<\/code>/,
  );
  const reasons = /<select id="f-reason".*?<\/select>/s.exec(await get(`/rejections?webhook_id=${webhook.id}`))![0];
  expect([...reasons.matchAll(/value="(\w*)"/g)].map(([, name]) => name)).toEqual(['', 'header_other']);
  expect(page).toContain('from 1 address, last');
  expect(page).toContain('<b>4 of 4 kept.</b>');
  expect(page).toContain('<button>Use header x-signature</button>');
  expect(await get('/rejections', viewer)).not.toContain('<button>Use header');

  const fixed = await post(`/rejections/${id}/fix`, { kind: 'use_header' });
  expect([fixed.status, fixed.location]).toEqual([
    303,
    expect.stringContaining(`/rejections/${id}?count=4&notice=rejection-fixed&proof=`),
  ]);
  const after = await get(fixed.location!);
  expect(boxes(after)).toEqual(['The webhook is changed: 4 rejected requests verify now.']);
  expect(after).toContain('>Accept</button>');
  expect(after).toContain('Accept all 4 of this webhook</button>');
  expect(await get('/rejections')).toContain('Accept 4</button>');
  const accepted = await post('/rejections/accept', { webhook_id: webhook.id });
  expect(await get(accepted.location!)).toContain('4 rejected requests are events now.');
  expect((await operator.api('GET', `/api/v1/events?webhook_id=${webhook.id}`)).body.items).toHaveLength(4);
  expect(await get('/rejections')).not.toContain('4 × ');
});

test('a fix that needs the sender’s secret has its field in place, and says what is wrong with it', async () => {
  const webhook = await app.addWebhook({ secret: 'another secret' });
  const id = await refuse(webhook, 'x-hub-signature-256', 1);
  const page = await get(`/rejections/${id}`);
  expect(page).toMatch(/name="kind" value="set_secret".*name="secret" type="password".*Use this secret/s);
  expect(await get(`/rejections/${id}`, viewer)).not.toContain('name="kind"');
  const refused = await post(`/rejections/${id}/fix`, { kind: 'set_secret', secret: '' });
  expect(refused.status).toBe(422);
  expect(refused.text).toMatch(/id="e-set_secret-[0-9a-f]{8}-secret"/);
  const fixed = await post(`/rejections/${id}/fix`, { kind: 'set_secret', secret: SECRET });
  expect(await get(fixed.location!)).toContain('1 rejected request verifies now.');
});

test.each([
  [
    'the public key',
    { 'x-signature-ed25519': 'a'.repeat(128), 'x-signature-timestamp': '1' },
    'discord',
    /a key<\/textarea>/,
  ],
  [
    'the sender',
    { 'x-signature': createHmac('sha1', SECRET).update(BODY).digest('hex') },
    'segment',
    /"segment" selected>/,
  ],
])('a fix that is refused keeps what was given: %s', async (_, headers, scheme, kept) => {
  const webhook = await app.addWebhook({ secret: SECRET });
  expect((await fetch(webhook.url, { method: 'POST', body: BODY, headers })).status).toBe(403);
  const { id, fixes } = await until(
    async () => (await operator.api('GET', `/api/v1/rejections?webhook_id=${webhook.id}`)).body.items[0],
  );
  expect(fixes[0]).toMatchObject({ kind: 'set_scheme', schemes: expect.arrayContaining([scheme]) });
  const refused = await post(`/rejections/${id}/fix`, { kind: 'set_scheme', scheme, public_key: 'not a key' });
  expect([refused.status, refused.text]).toEqual([422, expect.stringMatching(kept)]);
});

test('the title is the diagnosis, and one box says why and, after a check, what it found', async () => {
  const webhook = await app.addWebhook({ name: 'titled', secret: 'unlike that of the sender' });
  const id = await refuse(webhook, 'x-hub-signature-256', 1, 'that of the sender');
  const page = await get(`/rejections/${id}`);
  expect(page).toContain('<title>Wrong secret, most likely · Weir</title>');
  expect(page).toContain('<h1>Wrong secret, most likely <code class="muted">x-hub-signature-256</code></h1>');
  expect(boxes(page)).toEqual(['Why it was rejected']);
  const checked = await get((await post(`/rejections/${id}/recheck`, {})).location!);
  expect(boxes(checked)).toEqual(['The request is still rejected.']);
  expect(checked).toContain('>Use this secret</button>');
  expect(boxes(await get(`/rejections/${id}`))).toEqual(['The request is still rejected']);
  const fixed = await get(
    (await post(`/rejections/${id}/fix`, { kind: 'set_secret', secret: 'that of the sender' })).location!,
  );
  expect(boxes(fixed)).toEqual(['The webhook is changed: 1 rejected request verifies now.']);
  expect(fixed).not.toContain('Use this secret');
  await post(`/rejections/${id}/accept`, {});
  expect(boxes(await get(`/rejections/${id}`))).toEqual(['Accepted']);
});

test('where the secret is at the sender is beside the fixes, also that GitHub does not sign without one', async () => {
  const { body } = await operator.api('POST', '/api/v1/webhooks', {
    name: 'of GitHub',
    signature_scheme: 'github',
    secret: 'kept by Weir',
  });
  expect((await fetch(body.url, signedRequest({ secret: null }))).status).toBe(403);
  const { id } = await until(
    async () => (await operator.api('GET', `/api/v1/rejections?webhook_id=${body.id}`)).body.items[0],
  );
  const page = await get(`/rejections/${id}`);
  expect(page).toContain('<h3>Where GitHub has its secret</h3>');
  expect(page).toContain('GitHub signs nothing while its field for the secret is empty.');
});

test('the list has the source, and above it what to do about each reason', async () => {
  const webhook = await app.addWebhook({ secret: 'yet another secret' });
  const id = await refuse(webhook, 'x-hub-signature-256', 1, 'of no webhook at all');
  const list = await get(`/rejections?webhook_id=${webhook.id}`);
  expect(list).toContain('minor" data-label="From">127.0.0.1</td>');
  expect(list).toContain(`<a class="button" href="/rejections/${id}#fix">Paste the sender’s secret</a>`);
  expect(await get(`/rejections?webhook_id=${webhook.id}`, viewer)).not.toContain('#fix');
});

test('what only the sender can fix has a message to copy for the sender', async () => {
  const webhook = await app.addWebhook({ secret: SECRET });
  const id = await refuse(webhook, 'x-hub-signature-256', 1, 'of no webhook');
  expect(await get(`/rejections/${id}`)).toContain('name="kind"');
  expect((await fetch(webhook.url, { method: 'POST', body: BODY })).status).toBe(403);
  const unsigned = await until(async () => {
    const { items } = (await operator.api('GET', `/api/v1/rejections?webhook_id=${webhook.id}`)).body;
    return items.length === 2 && items[0].id;
  });
  const page = await get(`/rejections/${unsigned}`);
  const [, message] = /<pre [^>]*aria-label="Message to the sender">(.*?)<\/pre>/s.exec(page)!;
  expect(message).toContain(`The request to ${webhook.url} at `);
  expect(message).toContain(
    'Expected: x-hub-signature-256 or x-webhook-signature: sha256=SIGNATURE; the signature in hex.',
  );
  expect(page).toContain(`data-copy="${message}"`);
});

test('a webhook with a definition of its own says what it expects, and where old requests can be accepted', async () => {
  const definition = {
    algorithm: 'hmac-sha256',
    header: 'x-own',
    items: ',',
    pair: '=',
    key: 'v1',
    content: '{timestamp}.{body}',
    timestamp: { from: 'field:t', tolerance: 300 },
    id: 'header:x-event-id',
  };
  const own = { name: 'own', signature_scheme: 'custom', scheme_definition: definition, secret: SECRET };
  const { id, url } = (await operator.api('POST', '/api/v1/webhooks', own)).body;
  const send = async (headers: Record<string, string>) =>
    expect((await fetch(url, { method: 'POST', body: BODY, headers: { 'x-event-id': '1', ...headers } })).status).toBe(
      403,
    );
  const signed = createHmac('sha256', SECRET).update(`1.${BODY}`).digest('hex');
  await send({ 'x-own': `v1=${signed}` });
  await send({ 'x-own': `t=1,v1=${signed}` });
  const [old, malformed] = await until(async () => {
    const { items } = (await operator.api('GET', `/api/v1/rejections?webhook_id=${id}`)).body;
    return items.length === 2 && items;
  });
  expect([old.reason, malformed.reason]).toEqual(['clock_apart', 'malformed']);
  expect(malformed.hint).toMatch(/ Expected: x-own: t=TIME,v1=SIGNATURE, and x-event-id; the signature in hex\.$/);
  expect(await get(`/rejections/${old.id}`)).toContain(
    `href="/webhooks/${id}/edit#f-tolerance_seconds" hx-boost="false"`,
  );
  const groups = await get(`/rejections?webhook_id=${id}`);
  expect(groups).toContain('>Show it</a>');
  expect(groups).not.toContain('Show all 1');
});

test('the groups are in the order of what hurts: those of the last hour first, the largest first', async () => {
  const [old, few, many] = [await app.addWebhook(), await app.addWebhook(), await app.addWebhook()];
  for (const [webhook, count] of [
    [many, 3],
    [few, 2],
    [old, 4],
  ] as const)
    await refuse(webhook, 'x-hub-signature-256', count, 'of no webhook at all');
  await app.sql(`update rejections set received_at = received_at - interval '2 hours' where webhook_id = $1`, old.id);
  const { body } = await operator.api('GET', '/api/v1/rejections/groups');
  const ids = body.items.map((group: { webhook_id: string }) => group.webhook_id);
  const own = [many, few, old].map(({ id }) => id);
  expect(ids.filter((id: string) => own.includes(id))).toEqual(own);
});

test('Status lists requests to unknown URLs below /in/, of whatever form, with the client', async () => {
  const send = async (path: string) => (await fetch(`${app.url}${path}`, { method: 'POST', body: '{}' })).status;
  expect(await send('/in/01900000-0000-4000-8000-000000000000')).toBe(404);
  expect(await send('/in/shop<b>/orders')).toBe(404);
  expect(await send('/elsewhere')).toBe(404);
  const tally = new Tally(Date.now());
  tally.take(1, app.app.sample(), Date.now());
  app.app.live(tally.second(Date.now(), null));
  const page = await get('/status');
  const rows = [...page.matchAll(/<li><b>at least (\d+)<\/b> × <code class="wrap">([^<]*)<\/code> from ([^,]*),/g)];
  expect(rows.map(([, ...row]) => row).sort()).toEqual([
    ['1', '/in/01900000-0000-4000-8000-000000000000', '127.0.0.1'],
    ['1', '/in/shop%3Cb%3E/orders', '127.0.0.1'],
  ]);
});
