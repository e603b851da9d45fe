import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { startTestApp, type TestWebhook } from '../../helpers/app.ts';
import { RawClient, signatureOf } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const SECRET = 'kept between the two of us 7f3a';
const BODY = '{"action":"opened"}';
const GOOD = signatureOf(SECRET, BODY);
const HEX = GOOD.slice('sha256='.length);
const OTHERS = signatureOf('another secret', BODY);

const app = shared(startTestApp);
const usual = shared(() => app.addWebhook({ secret: SECRET }));
const own = shared(() => app.addWebhook({ secret: SECRET, signature_header: 'X-Own-Mark' }));
const open = shared(() => app.addWebhook({ secret: null }));
const openWithHeader = shared(() => app.addWebhook({ secret: null, signature_header: 'X-Own-Mark' }));
/** All responses of this file, to be searched for the secret. */
const answers: string[] = [];

/** Sends field lines unchanged in Latin-1; returns the status and the code of a problem. */
async function send(webhook: TestWebhook, lines: string[], body: string | Buffer = BODY): Promise<[number, string?]> {
  const client = await RawClient.connect(app.port);
  const bytes = Buffer.from(body as string);
  const head = [`POST ${webhook.path} HTTP/1.1`, 'Host: x', `Content-Length: ${bytes.length}`, ...lines].join('\r\n');
  await client.send(Buffer.concat([Buffer.from(`${head}\r\n\r\n`, 'latin1'), bytes]));
  const answer = (await client.answer())!;
  client.destroy();
  answers.push(answer.text);
  const { code } = JSON.parse(answer.body.toString());
  return code === undefined ? [answer.status] : [answer.status, code];
}

describe('a signature is accepted', () => {
  test.each([
    ['in X-Hub-Signature-256', [`X-Hub-Signature-256: ${GOOD}`]],
    ['in X-Webhook-Signature', [`X-Webhook-Signature: ${GOOD}`]],
    ['in a header written in another case', [`x-hub-SIGNATURE-256: ${GOOD}`]],
    ['in upper-case hex', [`X-Hub-Signature-256: sha256=${HEX.toUpperCase()}`]],
    ['in both default headers', [`X-Hub-Signature-256: ${GOOD}`, `X-Webhook-Signature: ${GOOD}`]],
    [
      'in one default header beside a malformed other',
      ['X-Hub-Signature-256: sha1=00', `X-Webhook-Signature: ${GOOD}`],
    ],
    ['in one default header beside a wrong other', [`X-Hub-Signature-256: ${OTHERS}`, `X-Webhook-Signature: ${GOOD}`]],
    ['beside the SHA-1 that GitHub sends too', ['X-Hub-Signature: sha1=00', `X-Hub-Signature-256: ${GOOD}`]],
    ['with blanks around the value, which are not part of it', [`X-Hub-Signature-256:   ${GOOD} \t`]],
  ])('%s', async (_how, lines) => {
    expect(await send(usual, lines)).toEqual([202]);
  });

  test.each([
    ['as configured', `X-Own-Mark: ${GOOD}`],
    ['in lower case', `x-own-mark: ${GOOD}`],
    ['in upper case', `X-OWN-MARK: ${GOOD}`],
  ])('in the configured header with the name %s', async (_how, line) => {
    expect(await send(own, [line])).toEqual([202]);
  });

  test.each([
    ['nothing', []],
    ['a wrong one', [`X-Hub-Signature-256: ${OTHERS}`]],
    ['a malformed one', ['X-Webhook-Signature: nonsense', 'X-Own-Mark: nonsense']],
  ])('for a webhook without a secret, with %s', async (_what, lines) => {
    expect(await send(open, lines)).toEqual([202]);
    expect(await send(openWithHeader, lines)).toEqual([202]);
  });

  test.each([
    ['empty', Buffer.alloc(0)],
    ['binary', Buffer.from([0, 255, 254, 13, 10, 0])],
    ['larger than one read of the socket', Buffer.alloc(900_000, 'x')],
  ])('over a body that is %s', async (_what, body) => {
    const digest = createHmac('sha256', SECRET).update(body).digest('hex');
    expect(await send(usual, [`X-Hub-Signature-256: sha256=${digest}`], body)).toEqual([202]);
  });
});

describe('a signature is refused with 403 when it is', () => {
  const field = (value: string) => [`X-Hub-Signature-256: ${value}`];
  test.each([
    ['missing', [], 'missing'],
    ['in a header of the sender’s own choice', [`X-Signature: ${GOOD}`], 'missing'],
    ['in the configured header of another webhook', [`X-Own-Mark: ${GOOD}`], 'missing'],
    ['in the query of Authorization', [`Authorization: ${GOOD}`], 'missing'],
    ['empty', field(''), 'malformed'],
    ['without its prefix', field(HEX), 'malformed'],
    ['not hex', field(`sha256=${HEX.slice(1)}g`), 'malformed'],
    ['a list', field(`${GOOD}, ${GOOD}`), 'malformed'],
    ['sent twice, both good', [...field(GOOD), ...field(GOOD)], 'malformed'],
    ['sent twice, one good', [...field(OTHERS), ...field(GOOD)], 'malformed'],
    ['sent twice beside a good other', [...field('x'), ...field('y'), `X-Webhook-Signature: ${GOOD}`], 'malformed'],
    ['of another secret', field(OTHERS), 'mismatch'],
    ['of another body', field(signatureOf(SECRET, `${BODY} `)), 'mismatch'],
    ['of the body’s digest without the secret', field(signatureOf('', BODY)), 'mismatch'],
    ['all zeroes', field(`sha256=${'0'.repeat(64)}`), 'mismatch'],
    ['wrong in its last digit', field(GOOD.slice(0, -1) + (GOOD.endsWith('0') ? '1' : '0')), 'mismatch'],
    ['wrong in both default headers', [...field(OTHERS), `X-Webhook-Signature: ${OTHERS}`], 'mismatch'],
  ])('%s', async (_how, lines, code) => {
    expect(await send(usual, lines)).toEqual([403, `signature_${code}`]);
  });

  test.each([
    ['in a default header', [`X-Hub-Signature-256: ${GOOD}`], 'missing'],
    ['in both default headers', [`X-Hub-Signature-256: ${GOOD}`, `X-Webhook-Signature: ${GOOD}`], 'missing'],
    ['wrong there, good in a default header', [`X-Own-Mark: ${OTHERS}`, `X-Hub-Signature-256: ${GOOD}`], 'mismatch'],
    ['malformed there, good in a default header', ['X-Own-Mark: x', `X-Hub-Signature-256: ${GOOD}`], 'malformed'],
  ])('%s, with a signature_header of the webhook', async (_how, lines, code) => {
    expect(await send(own, lines)).toEqual([403, `signature_${code}`]);
  });
});

describe('after a rotation', () => {
  const line = (secret: string) => [`X-Hub-Signature-256: ${signatureOf(secret, BODY)}`];

  test('without an overlap the previous secret is refused at once', async () => {
    const webhook = await app.addWebhook({ secret: 'the first' });
    await app.webhooks.rotate(webhook.id, { secret: 'the second', overlap_seconds: 0 });
    expect(await send(webhook, line('the second'))).toEqual([202]);
    expect(await send(webhook, line('the first'))).toEqual([403, 'signature_mismatch']);
  });

  test('the previous secret verifies until the exact end of its overlap', async () => {
    const webhook = await app.addWebhook({ secret: 'the first' });
    await app.webhooks.rotate(webhook.id, { secret: 'the second', overlap_seconds: 2 });
    expect(await send(webhook, line('the first'))).toEqual([202]);
    expect(await send(webhook, line('the second'))).toEqual([202]);
    const [row] = await app.sql<{ ms: number }>(
      'select (extract(epoch from expires_at) * 1000)::float8 as ms from webhook_secrets where webhook_id = $1 and expires_at is not null',
      webhook.id,
    );
    await until(() => Date.now() > row!.ms);
    expect(await send(webhook, line('the first'))).toEqual([403, 'signature_mismatch']);
    expect(await send(webhook, line('the second'))).toEqual([202]);
  });

  test('only the last previous secret is kept', async () => {
    const webhook = await app.addWebhook({ secret: 'the first' });
    await app.webhooks.rotate(webhook.id, { secret: 'the second', overlap_seconds: 60 });
    await app.webhooks.rotate(webhook.id, { secret: 'the third', overlap_seconds: 60 });
    const statuses = [];
    for (const secret of ['the first', 'the second', 'the third'])
      statuses.push((await send(webhook, line(secret)))[0]);
    expect(statuses).toEqual([403, 202, 202]);
  });
});

test('no secret and no digest appears in a response or in the log', () => {
  const reported = [...answers, ...app.logLines].join('\n');
  expect(app.logLines.length).toBeGreaterThan(40);
  for (const hidden of [SECRET, HEX, HEX.toUpperCase(), OTHERS.slice(7), 'the first', 'the second', 'the third'])
    expect(reported).not.toContain(hidden);
});
