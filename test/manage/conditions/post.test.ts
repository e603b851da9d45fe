import { createServer as createHttpServer, type IncomingMessage, type RequestListener } from 'node:http';
import { createServer } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { expect, test } from 'vitest';
import { postAlert, retryMs } from '../../../server/manage/conditions/post.ts';
import { listening } from '../../helpers/ports.ts';
import { gate } from '../../helpers/wait.ts';

const SECRET = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;
const message = { id: 'msg_1', body: '{"type":"alert.test","text":"5 % – ü"}' };

async function receiver(listener: RequestListener): Promise<string> {
  const port = await listening(createHttpServer(listener));
  return `http://127.0.0.1:${port}/hook/T0SECRET?token=SECRET`;
}
const allowing = (ALERT_URL: string, ALERT_SECRET: string | undefined = SECRET) =>
  ({ ALERT_URL, ALERT_SECRET, ALERT_PRIVATE_NETWORKS: 'allow' }) as const;

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

test('a request is signed as Standard Webhooks says, and unsigned without a secret', async () => {
  const got: { headers: Record<string, string>; body: string }[] = [];
  const url = await receiver(async (request, response) => {
    got.push({ headers: request.headers as Record<string, string>, body: await bodyOf(request) });
    response.writeHead(204).end();
  });
  expect(await postAlert(allowing(url), message, Date.now())).toMatchObject({ kind: 'sent', status: 204 });
  expect(got[0]!.headers).toMatchObject({ 'webhook-id': 'msg_1', 'content-type': 'application/json' });
  expect(new Webhook(SECRET).verify(got[0]!.body, got[0]!.headers)).toEqual(JSON.parse(message.body));
  expect(() => new Webhook(SECRET).verify(`${got[0]!.body} `, got[0]!.headers)).toThrow();

  const unsigned = { ALERT_URL: url, ALERT_SECRET: undefined, ALERT_PRIVATE_NETWORKS: 'allow' } as const;
  expect(await postAlert(unsigned, message, 1_800_000_000_500)).toMatchObject({ kind: 'sent' });
  expect(got[1]!.headers).toMatchObject({ 'webhook-id': 'msg_1', 'webhook-timestamp': '1800000000' });
  expect(got[1]!.headers).not.toHaveProperty('webhook-signature');
});

/** No response within this time. */
const SHORT_MS = 300;

test.each<[string, RequestListener, number | null, RegExp, { timeoutMs?: number }?]>([
  ['hangs', () => {}, null, /did not answer within 0\.3 s/, { timeoutMs: SHORT_MS }],
  [
    'sends its head too slowly',
    (request) => void request.socket.write('HTTP/1.1 200 OK\r\nx-a: '),
    null,
    /did not answer/,
    { timeoutMs: SHORT_MS },
  ],
  ['resets', (request) => request.socket.resetAndDestroy(), null, /closed the connection/],
  ['answers no HTTP', (request) => void request.socket.end('hello\n'), null, /failed: HPE_/],
  ['answers 500', (_, response) => void response.writeHead(500).end('no'), 500, /answered 500/],
  ['answers 410', (_, response) => void response.writeHead(410).end(), 410, /answered 410/],
])('a receiver that %s is a failure with a fix', async (_, listener, status, error, options) => {
  const url = await receiver(listener);
  const posted = await postAlert(allowing(url), message, Date.now(), options);
  expect(posted).toMatchObject({
    kind: 'failed',
    status,
    error: expect.stringMatching(error),
    fix: expect.stringMatching(/./),
  });
  // The path and query of ALERT_URL are secrets.
  expect(JSON.stringify(posted)).not.toMatch(/T0SECRET|token/);
});

test.each([
  [429, '120', 120_000],
  [503, '120', 120_000],
  [503, 'soon', null],
  [500, '120', null],
])('Retry-After of a %d response: %s', async (status, value, retryAfterMs) => {
  const url = await receiver((_, response) => void response.writeHead(status, { 'retry-after': value }).end());
  expect(await postAlert(allowing(url), message, Date.now())).toMatchObject({ kind: 'failed', retryAfterMs });
});

test.each([
  [null, 5_000],
  [1_000, 5_000],
  [30_000, 30_000],
  [60_001, 60_000],
])('a retry for which the receiver asks %j ms waits at most %d ms', (retryAfterMs, mostMs) => {
  const posted = { kind: 'failed', status: 503, error: '', fix: '', durationMs: 0, retryAfterMs } as const;
  const waitsMs = retryMs(posted, 0, { firstMs: 5_000, maxMs: 60_000 });
  expect(waitsMs).toBeGreaterThanOrEqual(mostMs / 2);
  expect(waitsMs).toBeLessThanOrEqual(mostMs);
});

test('a redirect is not followed', async () => {
  let followed = 0;
  const target = await receiver((_, response) => {
    followed++;
    response.end();
  });
  const url = await receiver((_, response) => void response.writeHead(301, { location: target }).end());
  expect(await postAlert(allowing(url), message, Date.now())).toMatchObject({
    kind: 'failed',
    status: 301,
    fix: /redirects/,
  });
  expect(followed).toBe(0);
});

test('an endless response is cut off, and its status counts', async () => {
  const { opened: isClosed, open: closed } = gate();
  const url = await receiver((_, response) => {
    response.writeHead(200);
    const write = () => {
      while (response.write(Buffer.alloc(65_536)));
    };
    response.on('drain', write).on('close', closed);
    write();
  });
  expect(await postAlert(allowing(url), message, Date.now())).toMatchObject({ kind: 'sent', status: 200 });
  await isClosed;
});

test('a target on a private network is refused without a connection, unless it is allowed', async () => {
  let connections = 0;
  const port = await listening(createServer(() => connections++));
  for (const host of ['127.0.0.1', 'localhost', '0x7f000001', '[::ffff:127.0.0.1]'])
    expect(
      await postAlert(
        { ...allowing(`http://${host}:${port}/`), ALERT_PRIVATE_NETWORKS: 'refuse' },
        message,
        Date.now(),
      ),
    ).toMatchObject({ kind: 'failed', error: /not a public address/, fix: /ALERT_PRIVATE_NETWORKS=allow/ });
  expect(connections).toBe(0);
});

test('the connection is made to the address that was checked, whatever the name resolves to afterwards', async () => {
  const url = new URL(await receiver((_, response) => void response.end()));
  url.hostname = 'rebinding.invalid';
  let lookUps = 0;
  const resolve = async () => {
    lookUps++;
    return [{ address: lookUps === 1 ? '127.0.0.1' : '127.0.0.9' }];
  };
  expect(await postAlert(allowing(url.href), message, Date.now(), { resolve })).toMatchObject({ kind: 'sent' });
  expect(lookUps).toBe(1);
  // A look-up that never ends is bounded too.
  const never = () => new Promise<never>(() => {});
  const hung = await postAlert(allowing(url.href), message, Date.now(), { resolve: never, timeoutMs: SHORT_MS });
  expect(hung).toMatchObject({ kind: 'failed', error: /did not answer/ });
  expect(await postAlert(allowing(url.href), message, Date.now())).toMatchObject({
    kind: 'failed',
    error: /rebinding\.invalid(:\d+)? (has no address|cannot be resolved)/,
  });
});
