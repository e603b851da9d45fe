import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { addAgent, send } from '../../helpers/agents.ts';
import { startTestApp, type TestWebhook } from '../../helpers/app.ts';
import { addPerson } from '../../helpers/people.ts';
import { signatureOf } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const SECRET = 'what the sender has 51c0';
const BODY = '{"order": 17, "note": "Größe"}';

const app = shared(startTestApp);
const operator = shared(() => addPerson(app, 'operator'));

const sent = (body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) => ({
  method: 'POST',
  body,
  headers: { 'content-type': 'application/json', 'x-hub-signature-256': signatureOf(SECRET, body), ...headers },
});

/** Sends a request that the webhook rejects; returns its rejection. */
async function refused(
  webhook: TestWebhook,
  headers: Record<string, string> = {},
  { path = '', body = BODY as string | Uint8Array<ArrayBuffer> } = {},
) {
  const kept = async () => (await operator.api('GET', `/api/v1/rejections?webhook_id=${webhook.id}`)).body.items;
  const before = (await kept()).length;
  expect((await fetch(`${webhook.url}${path}`, sent(body, headers))).status).toBe(403);
  return until(async () => {
    const items = await kept();
    return items.length > before && items[0];
  });
}

const fix = (webhook: TestWebhook) => app.webhooks.rotate(webhook.id, { secret: SECRET, overlap_seconds: 0 });

async function accept(id: string) {
  const { status, body } = await operator.api('POST', `/api/v1/rejections/${id}/accept`);
  return [status, body.event_id ?? body.code];
}

async function eventsOf(webhook: TestWebhook): Promise<string[]> {
  const { body } = await operator.api('GET', `/api/v1/events?webhook_id=${webhook.id}`);
  return body.items.map(({ id }: { id: string }) => id);
}

describe('after the webhook gets the sender’s secret, a rejection', () => {
  test('becomes its event, and its agents receive it', async () => {
    const webhook = await app.addWebhook({ event_type_from: 'header:x-kind' });
    const agent = await addAgent(app, [webhook]);
    const { id, received_at } = await refused(webhook, { 'x-kind': 'order' });
    await fix(webhook);
    const [status, eventId] = await accept(id);
    expect(status).toBe(201);
    const { event } = await agent.claimOne({ wait_seconds: 5 });
    const content = { event_type: 'order', content_type: 'application/json', body: BODY };
    expect(event).toMatchObject({ id: eventId, webhook_id: webhook.id, ...content });
    expect(event.headers).toMatchObject({ 'x-kind': 'order', 'weir-refused-at': received_at });
    expect(Date.parse(event.received_at)).toBeGreaterThan(Date.parse(received_at));
    const shown = (await operator.api('GET', `/api/v1/events/${eventId}`)).body;
    expect(shown).toMatchObject({ source_ip: '127.0.0.1', bytes: Buffer.byteLength(BODY) });
    expect((await operator.api('GET', `/api/v1/rejections/${id}`)).body.accepted_event_id).toBe(eventId);
    const entries = await app.sql<{ entry: object }>(
      `select entry from audit_log where action = 'rejection.accept' and target_id = $1`,
      id,
    );
    expect(entries).toMatchObject([{ entry: { actor: { name: operator.email }, after: { event_id: eventId } } }]);
  });

  test('is accepted once by concurrent requests', async () => {
    const webhook = await app.addWebhook();
    const { id } = await refused(webhook);
    await fix(webhook);
    const answers = await Promise.all(Array.from({ length: 5 }, () => accept(id)));
    expect(answers.map(([status]) => status).sort()).toEqual([200, 200, 200, 200, 201]);
    const events = await eventsOf(webhook);
    expect(events).toHaveLength(1);
    expect(new Set(answers.map(([, eventId]) => eventId))).toEqual(new Set(events));
    // Independent of later changes.
    await app.webhooks.rotate(webhook.id, { secret: 'yet another', overlap_seconds: 0 });
    expect(await accept(id)).toEqual([200, events[0]]);
  });

  test.each(['x-delivery', 'idempotency-key'])('is a duplicate when its sender repeated it, by %s', async (name) => {
    const webhook = await app.addWebhook({ dedupe_header: name });
    const { id } = await refused(webhook, { [name]: 'the same' });
    const other = await refused(webhook, { [name]: 'another' }, { body: '{"order": 18}' });
    await fix(webhook);
    const repeated = (await (await fetch(webhook.url, sent(BODY, { [name]: 'the same' }))).json()) as { id: string };
    expect(await accept(id)).toEqual([200, repeated.id]);
    // In the other order, later duplicates get the event of the accepted request.
    const [status, eventId] = await accept(other.id);
    expect(status).toBe(201);
    const late = await fetch(webhook.url, sent('{"order": 18}', { [name]: 'another' }));
    expect([late.status, await late.json()]).toMatchObject([200, { id: eventId, duplicate: true }]);
    expect((await eventsOf(webhook)).sort()).toEqual([repeated.id, eventId].sort());
  });

  test('is a duplicate when its sender repeats it, by an id in a compressed body', async () => {
    const definition = { algorithm: 'hmac-sha256', header: 'x-hub-signature-256', prefix: 'sha256=', id: 'json:/id' };
    const webhook = await app.addWebhook({ signature_scheme: 'custom', scheme_definition: definition as never });
    const body = gzipSync('{"id": "the same"}');
    const compressed = { 'content-encoding': 'gzip' };
    const { id } = await refused(webhook, compressed, { body });
    await fix(webhook);
    const [status, eventId] = await accept(id);
    expect(status).toBe(201);
    const late = await fetch(webhook.url, sent(body, compressed));
    expect([late.status, await late.json()]).toMatchObject([200, { id: eventId, duplicate: true }]);
  });

  test('is a different event from one with the same body', async () => {
    const webhook = await app.addWebhook();
    const { id } = await refused(webhook);
    await fix(webhook);
    const first = await send({ ...webhook, secret: SECRET }, BODY);
    const [, eventId] = await accept(id);
    expect((await eventsOf(webhook)).sort()).toEqual([first, eventId].sort());
  });
});

describe('a rejection is not accepted, and nothing is stored,', () => {
  test.each<[string, [number, string], (webhook: TestWebhook) => Promise<string>]>([
    ['while it does not verify', [409, 'rejection_unverified'], async (webhook) => (await refused(webhook)).id],
    [
      'when the secret was changed to the wrong one',
      [409, 'rejection_unverified'],
      async (webhook) => {
        const { id } = await refused(webhook);
        await app.webhooks.rotate(webhook.id, { secret: `${SECRET}!`, overlap_seconds: 0 });
        return id;
      },
    ],
    [
      'when its body was not kept',
      [404, 'rejection_without_body'],
      async (webhook) => {
        const { id } = await refused(webhook, {}, { body: 'x'.repeat(65_537) });
        await fix(webhook);
        return id;
      },
    ],
    [
      'when it was a batch',
      [409, 'rejection_of_batch'],
      async (webhook) => {
        const { id, batch } = await refused(webhook, {}, { path: '/batch' });
        expect(batch).toBe(true);
        await fix(webhook);
        return id;
      },
    ],
    [
      'while its webhook is disabled',
      [410, 'webhook_disabled'],
      async (webhook) => {
        const { id } = await refused(webhook);
        await fix(webhook);
        await app.webhooks.update(webhook.id, { enabled: false });
        return id;
      },
    ],
    [
      'when its webhook is deleted',
      [404, 'rejection_unknown'],
      async (webhook) => {
        const { id } = await refused(webhook);
        await fix(webhook);
        await app.webhooks.remove(webhook.id);
        return id;
      },
    ],
  ])('%s', async (_, problem, prepare) => {
    const webhook = await app.addWebhook();
    expect(await accept(await prepare(webhook))).toEqual(problem);
    expect(await eventsOf(webhook)).toEqual([]);
  });
});
