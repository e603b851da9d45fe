import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { rejectionReasonNames } from '../../../server/model/signatures/diagnosis/reasons.ts';
import { OTHER_WEBHOOKS_MAX } from '../../../server/receive/rejections/sampler.ts';
import { startTestApp, type TestWebhook } from '../../helpers/app.ts';
import { addPerson, type TestPerson } from '../../helpers/people.ts';
import { RawClient, signatureOf } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const SECRET = 'kept between the two of us 7f3a';
const BODY = '{"action": "opened"}';
const GOOD = signatureOf(SECRET, BODY);
const HEX = GOOD.slice('sha256='.length);
const OTHER = signatureOf('another secret', BODY);

const app = shared(startTestApp);
const viewer = shared(() => addPerson(app, 'viewer'));
const operator = shared(() => addPerson(app, 'operator'));
/** Every response of the API, to be searched for secrets. */
const answers: string[] = [];

async function api(person: TestPerson, method: string, path: string) {
  const answer = await person.api(method, `/api/v1/rejections${path}`);
  answers.push(answer.text);
  return answer;
}

/** Sends field lines and a body unchanged; returns the code of the refusal. */
async function send(webhook: TestWebhook, lines: string[], body: string | Buffer = BODY): Promise<string> {
  const client = await RawClient.connect(app.port);
  const bytes = Buffer.from(body as string);
  const head = [`POST ${webhook.path} HTTP/1.1`, 'Host: x', `Content-Length: ${bytes.length}`, ...lines].join('\r\n');
  await client.send(Buffer.concat([Buffer.from(`${head}\r\n\r\n`), bytes]));
  const answer = (await client.answer())!;
  client.destroy();
  answers.push(answer.text);
  return JSON.parse(answer.body.toString()).code;
}

// biome-ignore lint/suspicious/noExplicitAny: a JSON document
const newest = (webhook: TestWebhook): Promise<any> =>
  until(async () => (await api(viewer, 'GET', `?webhook_id=${webhook.id}&limit=1`)).body.items[0]);

describe('a rejected request is stored with its reason', () => {
  const field = (value: string) => [`X-Hub-Signature-256: ${value}`];
  test.each<[string, string[], string, boolean | null, (string | Buffer)?]>([
    ['no header', [], 'header_missing', null],
    ['wrong header', [`X-Signature: ${GOOD}`], 'header_other', true],
    ['the secret itself', field(SECRET), 'secret_sent', false],
    ['digest differs', field(OTHER), 'digest_differs', false],
    ['a body of 64 KiB', field(signatureOf(SECRET, '')), 'body_empty', true, Buffer.alloc(65_536, 1)],
    ['a body of one byte more', field(signatureOf(SECRET, '')), 'body_too_large', null, Buffer.alloc(65_537, 1)],
  ])('%s', async (_, lines, reason, otherwiseValid, body = BODY) => {
    const webhook = await app.addWebhook({ secret: SECRET, name: 'Orders' });
    expect(await send(webhook, ['Content-Type: application/json', 'Cookie: a=b', ...lines], body)).toMatch(
      /^signature_/,
    );
    const rejection = await newest(webhook);
    const bytes = Buffer.from(body as string);
    const keepsBody = bytes.length <= 65_536;
    expect(rejection).toMatchObject({ webhook_id: webhook.id, webhook_name: 'Orders', source_ip: '127.0.0.1', reason });
    expect(rejection).toMatchObject({ otherwise_valid: otherwiseValid, bytes: bytes.length, body_kept: keepsBody });
    expect(rejection.last_check).toBeNull();
    const shown = (await api(viewer, 'GET', `/${rejection.id}`)).body;
    expect(shown).toMatchObject(rejection);
    expect(shown.headers).toMatchObject({ 'content-type': 'application/json' });
    expect(shown.headers).not.toHaveProperty('cookie');
    expect(shown.content_type).toBe('application/json');
    const got = await viewer.api('GET', `/api/v1/rejections/${rejection.id}/body`);
    expect(got.status).toBe(keepsBody ? 200 : 404);
    if (!keepsBody) expect(got.body.code).toBe('rejection_without_body');
    else {
      expect(got.headers.get('content-disposition')).toBe(`attachment; filename="${rejection.id}"`);
      expect(got.text).toBe(bytes.toString());
      expect(shown.body_preview).toBe(bytes.subarray(0, 8_192).toString());
    }
  });

  test('its signature is shown only by its form', async () => {
    const webhook = await app.addWebhook({ secret: SECRET });
    await send(webhook, field(OTHER));
    const { signatures } = await newest(webhook);
    expect(signatures).toEqual([{ name: 'x-hub-signature-256', shape: 'sha256= and 64 hex digits' }]);
  });

  test('the webhook whose secret signed it is shown to users, not to the sender', async () => {
    const meant = await app.addWebhook({ secret: 'of the billing alone', name: 'Billing' });
    const webhook = await app.addWebhook({ secret: SECRET, name: 'Orders' });
    expect(await send(webhook, field(signatureOf('of the billing alone', BODY)))).toBe('signature_mismatch');
    const rejection = await newest(webhook);
    expect(rejection).toMatchObject({ reason: 'other_webhook', otherwise_valid: true });
    expect(rejection.other_webhook).toEqual({ id: meant.id, name: 'Billing' });
    expect(rejection.hint).toContain(`The other webhook is Billing (${meant.id}).`);
    await api(operator, 'POST', `/${rejection.id}/recheck`);
    expect((await newest(webhook)).last_check).toMatchObject({ reason: 'other_webhook', hint: rejection.hint });
    await app.webhooks.remove(meant.id);
    expect(await newest(webhook)).toMatchObject({ reason: 'other_webhook', other_webhook: null });
  });

  test('only the most recently changed webhooks are compared', async () => {
    await app.addWebhook({ secret: 'of the first' });
    const last = await app.addWebhook({ secret: 'the last' });
    const webhook = await app.addWebhook({ secret: SECRET });
    const text = `
      insert into webhooks (id, name, updated_at)
      select gen_random_uuid(), 'filler', now() + interval '1 hour' from generate_series(1, $1)`;
    await app.sql(text, OTHER_WEBHOOKS_MAX - 1);
    onTestFinished(async () => {
      await app.sql(`delete from webhooks where name = 'filler'`);
    });
    await app.sql(`update webhooks set updated_at = now() + interval '1 minute' where id = $1`, last.id);
    await send(webhook, field(signatureOf('the last', BODY)));
    expect((await newest(webhook)).other_webhook.id).toBe(last.id);
    const other = await app.addWebhook({ secret: SECRET });
    await send(other, field(signatureOf('of the first', BODY)));
    expect((await newest(other)).reason).toBe('digest_differs');
  });

  test('a binary body is shown in base64, one cut within a character as text', async () => {
    const webhook = await app.addWebhook({ secret: SECRET });
    await send(webhook, field(OTHER), Buffer.from([0xff, 0xfe]));
    const binary = (await api(viewer, 'GET', `/${(await newest(webhook)).id}`)).body;
    expect([binary.body_preview, binary.body_preview_base64]).toEqual([null, '//4=']);
    const other = await app.addWebhook({ secret: SECRET });
    await send(other, field(OTHER), `${'x'.repeat(8_191)}é`);
    expect((await api(viewer, 'GET', `/${(await newest(other)).id}`)).body.body_preview).toBe('x'.repeat(8_191));
  });

  test.each([
    [
      'a webhook with a header of its own',
      { signature_header: 'X-Own' },
      [`X-Hub-Signature-256: ${GOOD}`],
      'header_other',
    ],
    ['a batch', {}, [`X-Hub-Signature-256: ${OTHER}`], 'digest_differs'],
  ])('at %s', async (what, given, lines, reason) => {
    const webhook = await app.addWebhook({ secret: SECRET, ...given });
    const path = what === 'a batch' ? `${webhook.path}/batch` : webhook.path;
    await send({ ...webhook, path }, lines);
    const rejection = await newest(webhook);
    expect(rejection.reason).toBe(reason);
    expect(rejection.batch).toBe(what === 'a batch');
    const looked = what === 'a batch' ? ['x-hub-signature-256', 'x-webhook-signature'] : ['x-own'];
    expect(rejection.expected_headers).toEqual(looked);
  });
});

test.each([
  ['sha256', 'x-hub-signature-256 or x-webhook-signature: sha256=SIGNATURE; the signature in hex'],
  ['stripe', 'stripe-signature: t=TIME,v1=SIGNATURE; the signature in hex'],
  ['slack', 'x-slack-signature: v0=SIGNATURE, and x-slack-request-timestamp; the signature in hex'],
  ['shopify', 'x-shopify-hmac-sha256: SIGNATURE, and x-shopify-webhook-id; the signature in base64'],
  ['ship24', 'authorization: Bearer SECRET'],
  ['basic', 'authorization: Basic and base64 of the secret'],
])('the hint for an unsigned request says what the scheme %s expects', async (signature_scheme, expected) => {
  const webhook = await app.addWebhook({ secret: `weir:${SECRET}`, signature_scheme });
  await send(webhook, []);
  const { reason, hint } = await newest(webhook);
  expect([reason, hint]).toEqual(['header_missing', expect.stringMatching(/^The request carries no signature\. /)]);
  expect(hint.split(' Expected: ')[1]).toBe(`${expected}.`);
});

test('a request refused for another cause is not a rejection', async () => {
  const limited = await app.addWebhook({ secret: SECRET, rate_limit_max: 1, max_payload_bytes: 10 });
  expect(await send(limited, [], 'longer than ten')).toBe('payload_too_large');
  expect(await send(limited, [])).toBe('rate_limited');
  const open = await app.addWebhook({ secret: null });
  expect(await send(open, [])).toBeUndefined();
  const marker = await app.addWebhook({ secret: SECRET });
  expect(await send(marker, [])).toBe('signature_missing');
  await newest(marker);
  for (const webhook of [limited, open])
    expect((await api(viewer, 'GET', `?webhook_id=${webhook.id}`)).body.items).toEqual([]);
});

describe('the list', () => {
  let webhook: TestWebhook;
  beforeAll(async () => {
    webhook = await app.addWebhook({ secret: SECRET });
    for (let i = 0; i < 3; i++) await send(webhook, []);
    await send(webhook, [`X-Hub-Signature-256: ${OTHER}`]);
    await until(async () => (await api(viewer, 'GET', `?webhook_id=${webhook.id}`)).body.items.length === 4);
  });

  test('can be filtered by reason', async () => {
    const { body } = await api(viewer, 'GET', `?webhook_id=${webhook.id}&reason=digest_differs`);
    expect(body.items.map(({ reason }: { reason: string }) => reason)).toEqual(['digest_differs']);
  });

  test('can be filtered by time, from the first millisecond to before the last', async () => {
    const { items } = (await api(viewer, 'GET', `?webhook_id=${webhook.id}`)).body;
    const times = items.map(({ received_at }: { received_at: string }) => received_at).toReversed();
    const [from, to] = [times[1], times.at(-1)];
    const { body } = await api(viewer, 'GET', `?webhook_id=${webhook.id}&from=${from}&to=${to}`);
    const found = body.items.map(({ received_at }: { received_at: string }) => received_at).toReversed();
    expect(found).toEqual(times.filter((time: string) => time >= from && time < to));
    expect(found.length).toBeGreaterThan(0);
  });
});

test('a burst keeps one for each reason, and the groups count what is kept of how many', async () => {
  const webhook = await app.addWebhook({ secret: SECRET });
  for (let i = 0; i < 16; i++) await send(webhook, [`X-Hub-Signature-256: ${OTHER}`]);
  await send(webhook, [`X-Hub-Signature-256: ${signatureOf(SECRET, '{"action":"opened"}')}`]);
  await send(webhook, [`X-Hub-Signature-256: ${GOOD}`], `${BODY}\n`);
  const groups = await until(async () => {
    const { body } = await api(viewer, 'GET', `/groups?webhook_id=${webhook.id}`);
    return body.items.length === 3 && body.rejected === 18 && body;
  });
  expect(groups.items.map(({ reason }: { reason: string }) => reason).sort()).toEqual([
    'body_line_end',
    'body_reencoded',
    'digest_differs',
  ]);
  expect(groups.kept).toBeGreaterThanOrEqual(12);
  expect(groups.kept).toBeLessThan(18);
  expect(Date.parse(groups.since) % 3_600_000).toBe(0);
});

describe('a re-check', () => {
  const recheck = async (id: string) => (await api(operator, 'POST', `/${id}/recheck`)).body;

  test('verifies with the sender’s secret, and is recorded', async () => {
    const webhook = await app.addWebhook({ secret: 'mistyped at first' });
    await send(webhook, [`X-Hub-Signature-256: ${signatureOf('typed right at last', BODY)}`]);
    const { id } = await newest(webhook);
    expect(await recheck(id)).toMatchObject({ verified: false, reason: 'digest_differs' });
    await app.webhooks.rotate(webhook.id, { secret: 'typed right at last', overlap_seconds: 0 });
    expect(await recheck(id)).toMatchObject({ verified: true, reason: 'verifies_now' });
    const { last_check, reason } = (await api(viewer, 'GET', `/${id}`)).body;
    expect(reason).toBe('digest_differs');
    expect(last_check).toMatchObject({ verified: true, reason: 'verifies_now' });
    const rows = await app.sql<{ entry: { actor: object; target: object; before: object; after: object } }>(
      `select entry from audit_log where action = 'rejection.recheck' and target_id = $1 order by number`,
      id,
    );
    expect(rows.map(({ entry }) => [entry.before, entry.after])).toEqual([
      [{ reason: 'digest_differs' }, { reason: 'digest_differs', verified: false }],
      [{ reason: 'digest_differs' }, { reason: 'verifies_now', verified: true }],
    ]);
    expect(rows[0]!.entry.actor).toMatchObject({ name: operator.email });
  });

  test('recognizes a secret whose overlap has ended as the previous one', async () => {
    const webhook = await app.addWebhook({ secret: SECRET });
    await app.webhooks.rotate(webhook.id, { secret: 'the second one', overlap_seconds: 1 });
    await until(async () => (await send(webhook, [`X-Hub-Signature-256: ${GOOD}`])) === 'signature_mismatch');
    const { id, reason } = await newest(webhook);
    expect(reason).toBe('previous_secret');
    expect(await recheck(id)).toMatchObject({ verified: false, reason: 'previous_secret' });
  });

  test('verifies after signature_header is set to the sender’s header', async () => {
    const webhook = await app.addWebhook({ secret: SECRET });
    await send(webhook, [`X-Own: ${GOOD}`]);
    const { id, reason } = await newest(webhook);
    expect(reason).toBe('header_other');
    const text = `update webhooks set signature_header = 'x-own' where id = $1`;
    await app.sql(text, webhook.id);
    expect(await recheck(id)).toMatchObject({ verified: true });
  });

  test('keeps the reason of a value that was not stored', async () => {
    const webhook = await app.addWebhook({ secret: SECRET });
    await send(webhook, [`X-Hub-Signature-256: ${SECRET}`]);
    const { id } = await newest(webhook);
    expect(await recheck(id)).toMatchObject({ verified: false, reason: 'secret_sent' });
  });

  test('is not possible without the body', async () => {
    const webhook = await app.addWebhook({ secret: SECRET });
    await send(webhook, [`X-Hub-Signature-256: ${OTHER}`], JSON.stringify({ secret: SECRET }));
    const { id, body_kept } = await newest(webhook);
    expect(body_kept).toBe(false);
    const { status, body } = await api(operator, 'POST', `/${id}/recheck`);
    expect([status, body.code]).toEqual([404, 'rejection_without_body']);
  });

  test('of a deleted webhook nothing is shown', async () => {
    const webhook = await app.addWebhook({ secret: SECRET });
    await send(webhook, []);
    const { id } = await newest(webhook);
    await app.webhooks.remove(webhook.id);
    expect((await api(viewer, 'GET', `/${id}`)).status).toBe(404);
    expect((await api(viewer, 'GET', `?webhook_id=${webhook.id}`)).body.items).toEqual([]);
    expect((await api(operator, 'POST', `/${id}/recheck`)).status).toBe(404);
  });
});

test('the database has the same reasons as the code', async () => {
  const [row] = await app.sql<{ definition: string }>(
    `select pg_get_constraintdef(oid) as definition from pg_constraint where contypid = 'rejection_reason'::regtype`,
  );
  const names = [...row!.definition.matchAll(/'([a-z0-9_]+)'::text/g)].map((match) => match[1]!);
  expect(names.sort()).toEqual([...rejectionReasonNames].sort());
});

test('no secret is in a row, a log line or a response, and no digest is shown', async () => {
  const rows = await app.sql<{ row: string; body: Buffer | null; headers: Buffer }>(
    'select r::text as row, body, headers from rejections r',
  );
  const audited = await app.sql<{ entry: string }>('select entry::text from audit_log');
  expect(rows.length).toBeGreaterThan(20);
  const stored = rows.flatMap(({ row, body, headers }) => [row, body?.toString('latin1') ?? '', headers.toString()]);
  const reported = [...answers, ...app.logLines, ...audited.map(({ entry }) => entry)].join('\n');
  for (const hidden of [SECRET, 'mistyped at first', 'typed right at last', 'the second one', 'of the billing alone'])
    for (const text of [stored.join('\n'), reported]) expect(text).not.toContain(hidden);
  for (const digest of [HEX, OTHER.slice(7)]) expect(reported).not.toContain(digest);
  expect(stored.join('\n')).toContain(HEX);
});
