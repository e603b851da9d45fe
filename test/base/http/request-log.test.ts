/** Log lines about failed and slow requests, at the default level. */
import { expect, test } from 'vitest';
import { startTestApp } from '../../helpers/app.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { ofTest, shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(() => startTestApp({ LOG_LEVEL: 'info' }));
const webhook = shared(() => app.addWebhook());

type Line = Record<string, unknown> & { left_out: number };
const linesOf = (event: string): Line[] =>
  app.logLines.map((line) => JSON.parse(line)).filter((line) => line.event === event);

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

function post(headers: Record<string, string> = {}): Promise<Response> {
  const request = signedRequest({ secret: webhook.secret });
  return fetch(webhook.url, { ...request, headers: { ...(request.headers as Record<string, string>), ...headers } });
}

test('refused requests are sampled, with all their identifiers', async () => {
  const response = await post({ 'X-Hub-Signature-256': 'sha256=none', traceparent: TRACE });
  expect(response.status).toBe(403);
  await until(() => linesOf('request_refused').length === 1);
  expect(linesOf('request_refused')[0]).toMatchObject({
    level: 30,
    request_id: response.headers.get('x-request-id'),
    code: 'signature_malformed',
    status: 403,
    client: '127.0.0.1',
    webhook_id: webhook.id,
    traceparent: TRACE,
    left_out: 0,
  });
  for (let i = 0; i < 20; i++) expect((await post({ 'X-Hub-Signature-256': '' })).status).toBe(403);
  await until(() => linesOf('request_refused').reduce((sum, line) => sum + 1 + line.left_out, 0) === 21);
  expect(linesOf('request_refused').length).toBeLessThan(21);
});

test('failed requests are logged one by one, up to ten a second', async () => {
  await app.sql(`create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not today'; end $$;
           create trigger refuse before insert on events for each row execute function refuse()`);
  const ids = Array.from({ length: 30 }, (_, i) => `refused-${i}`);
  const answers = await Promise.all(ids.map((id) => post({ 'X-Request-Id': id, traceparent: 'none at all' })));
  expect(answers.map(({ status }) => status)).toEqual(ids.map(() => 503));
  await app.sql('drop trigger refuse on events');
  const reported = () => linesOf('request_unserved');
  await until(() => reported().reduce((sum, line) => sum + 1 + line.left_out, 0) === ids.length);
  expect(reported().length).toBeGreaterThanOrEqual(10);
  for (const line of reported()) {
    expect(ids).toContain(line.request_id);
    expect(line).toMatchObject({ code: 'database_unavailable', status: 503, webhook_id: webhook.id, level: 40 });
    expect(line).not.toHaveProperty('traceparent');
  }
  const [refused] = linesOf('database_refused');
  expect(refused).toMatchObject({ sql_state: 'P0001', request_ids: expect.any(Array) });
  const named = refused!.request_ids as string[];
  expect(named.length).toBeGreaterThan(0);
  expect(named.length).toBeLessThanOrEqual(10);
  expect(ids).toEqual(expect.arrayContaining(named));
});

test('slow requests are logged up to ten a second, and the others counted', async () => {
  const slow = await ofTest(startTestApp({ LOG_LEVEL: 'info', REQUEST_LOG_SLOW_MS: 1 }));
  const { url, secret } = await slow.addWebhook();
  const lines = (): Line[] =>
    slow.logLines.map((line) => JSON.parse(line)).filter(({ event }) => event === 'request_slow');
  // Each waits for its commit, which takes longer than a millisecond.
  const answers = await Promise.all(Array.from({ length: 50 }, () => fetch(url, signedRequest({ secret }))));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
  await until(() => lines().reduce((sum, line) => sum + 1 + line.left_out, 0) === 50);
  expect(lines()[0]).toMatchObject({ level: 40, status: 202, slowest_stage: expect.any(String), left_out: 0 });
  expect(lines().length).toBeLessThan(25);
});
