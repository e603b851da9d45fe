/** A rotation is followed by a meter, and ended when the old secret is not used any more. */
import { expect, test } from 'vitest';
import { startTestApp } from '../../helpers/app.ts';
import { addPerson } from '../../helpers/people.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(startTestApp);
const operator = shared(() => addPerson(app, 'operator'));

test('the meter counts by secret, the old one is a condition while it is used before its end, and can be ended', async () => {
  const webhook = await app.addWebhook();
  const path = `/api/v1/webhooks/${webhook.id}`;
  const send = async (secret: string | null) => (await fetch(webhook.url, signedRequest({ secret }))).status;
  const page = async () => operator.page(`/webhooks/${webhook.id}/secret`);
  expect(await page()).not.toContain('with the old one');
  expect(await send(webhook.secret)).toBe(202);
  const accepted = async () => (await operator.api('GET', `/api/v1/history?webhook_id=${webhook.id}`)).body.points;
  await until(async () => (await accepted()).some((point: { accepted: number }) => point.accepted === 1));
  const { secret } = (await operator.api('POST', `${path}/rotate-secret`, { overlap_seconds: 86_400 })).body;
  // A request of before the rotation says nothing about which secret the sender has.
  expect(await page()).toContain('<b>0</b> with the new secret, <b>0</b> with the old one');
  expect([await send(webhook.secret), await send(webhook.secret), await send(secret)]).toEqual([202, 202, 202]);
  await until(async () => (await page()).includes('<b>1</b> with the new secret, <b>2</b> with the old one'));
  const kinds = async () =>
    (await operator.api('GET', '/api/v1/issues?state=open')).body.items.map(({ kind }: { kind: string }) => kind);
  expect(await kinds()).not.toContain('old_secret');
  await app.database.query({
    text: `update webhook_secrets set expires_at = now() + interval '3 hours' where webhook_id = $1 and slot = 'previous'`,
    values: [webhook.id],
  });
  await app.database.query({
    text: `update webhook_secrets set created_at = now() - interval '21 hours' where webhook_id = $1 and slot = 'current'`,
    values: [webhook.id],
  });
  expect(await kinds()).toContain('old_secret');

  const unconfirmed = await operator.submit(`/webhooks/${webhook.id}/end-previous`, {});
  expect(unconfirmed.status).toBe(422);
  expect(await send(webhook.secret)).toBe(202);
  expect((await operator.submit(`/webhooks/${webhook.id}/end-previous`, { confirmed: 'yes' })).status).toBe(303);
  expect([await send(webhook.secret), await send(secret)]).toEqual([403, 202]);
  expect(await kinds()).not.toContain('old_secret');
  expect((await operator.api('DELETE', `${path}/secrets/previous`)).body.code).toBe('secret_unknown');
});
