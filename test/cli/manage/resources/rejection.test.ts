import { beforeAll, expect, test } from 'vitest';
import { rejectionDetailSchema } from '../../../../server/model/rejections.ts';
import { startTestApp } from '../../../helpers/app.ts';
import { weir, weirJson } from '../../../helpers/command.ts';
import { signatureOf, signedRequest } from '../../../helpers/requests.ts';
import { someKey } from '../../../helpers/settings.ts';
import { shared } from '../../../helpers/shared.ts';
import { until } from '../../../helpers/wait.ts';

const SECRET = 'kept between the two of us 7f3a';
const BODY = 'signed with another secret';
const app = shared(() => startTestApp({ SECRETS_KEY: someKey }));
const webhook = shared(() => app.addWebhook({ secret: 'mistyped at first' }));
let id: string;

beforeAll(async () => {
  expect((await fetch(webhook.url, signedRequest({ secret: SECRET, body: BODY }))).status).toBe(403);
  const list = async () => (await weirJson(app, 'rejection', 'list', '--webhook', webhook.id)).items;
  id = (await until(async () => (await list())[0])).id;
});

test('list shows rejected requests with their reason', async () => {
  const { items } = await weirJson(app, 'rejection', 'list', '--limit', '1');
  expect(items).toMatchObject([{ id, webhook_id: webhook.id, reason: 'digest_differs', last_check: null }]);
  expect((await weir(app, 'rejection', 'list')).out).toMatch(/^ID +WEBHOOK[^\n]+REASON\n[^\n]+ digest_differs\n$/);
});

test('show prints the fix, and never the digest', async () => {
  const { out } = await weir(app, 'rejection', 'show', id);
  expect(out).toMatch(/^digest_differs: The digest is well formed/);
  expect(out).toContain('x-hub-signature-256: (sha256= and 64 hex digits)');
  expect(out).toContain('\nFix: Paste the sender’s secret\n');
  expect(out).toContain(BODY);
  const shown = await weirJson(app, 'rejection', 'show', id);
  expect(Object.keys(shown).sort()).toEqual(Object.keys(rejectionDetailSchema.shape).sort());
  expect(shown.body_preview).toBe(BODY);
  expect(out + JSON.stringify(shown)).not.toContain(signatureOf(SECRET, BODY).slice(7));
  expect((await weir(app, 'rejection', 'show', id, '--body')).out).toBe(BODY);
});

test('recheck fails until the webhook has the sender’s secret', async () => {
  const before = await weir(app, 'rejection', 'recheck', id);
  expect([before.code, before.out]).toEqual([1, '']);
  expect(before.err).toMatch(new RegExp(`^weir: ${id}: digest_differs\\. `));
  await app.webhooks.rotate(webhook.id, { secret: SECRET, overlap_seconds: 0 });
  expect(await weirJson(app, 'rejection', 'recheck', id)).toMatchObject({ verified: true, reason: 'verifies_now' });
});

test('accept stores the request once', async () => {
  const first = await weirJson(app, 'rejection', 'accept', id);
  expect(first).toEqual({ event_id: expect.any(String) });
  expect((await weir(app, 'rejection', 'accept', id)).out).toBe(`${id}: stored as event ${first.event_id}\n`);
  expect((await weirJson(app, 'event', 'show', first.event_id)).webhook_id).toBe(webhook.id);
});

test('fix changes the webhook, and verifies the similar rejections again', async () => {
  const other = await app.addWebhook({ secret: SECRET });
  const headers = { 'x-signature': signatureOf(SECRET, BODY) };
  expect((await fetch(other.url, { method: 'POST', body: BODY, headers })).status).toBe(403);
  const rejected = async (reason: string): Promise<{ id: string } | undefined> => {
    const { items } = await weirJson(app, 'rejection', 'list', '--webhook', other.id);
    return items.find((item: { reason: string }) => item.reason === reason);
  };
  const found = await until(() => rejected('header_other'));
  const none = await weir(app, 'rejection', 'fix', found.id);
  expect([none.code, none.err]).toEqual([
    2,
    'weir: give --use-header, --scheme or --secret-stdin; see: weir rejection show\n',
  ]);
  expect(await weirJson(app, 'rejection', 'fix', found.id, '--use-header')).toEqual({
    webhook_id: other.id,
    checked: 1,
    verified: 1,
  });
});
