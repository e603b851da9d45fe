import { expect, test } from 'vitest';
import { ALERT_SECRET, startAlertReceiver } from '../../helpers/alert-receiver.ts';
import { type Overrides, startTestApp } from '../../helpers/app.ts';
import { weir } from '../../helpers/command.ts';
import { addPerson, csrfToken } from '../../helpers/people.ts';
import { someKey } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';

// Nothing listens on port 1.
const alerting = { ALERT_URL: 'http://127.0.0.1:1/SECRETPATH', ALERT_SECRET, ALERT_PRIVATE_NETWORKS: 'allow' };
const app = shared(() => startTestApp({ SECRETS_KEY: someKey, ...alerting }));

test('a test alert shows its result over the API, on the page Status and in the audit log', async () => {
  const operator = await addPerson(app, 'operator');
  const { status, body } = await operator.api('POST', '/api/v1/alerts/test');
  expect([status, body]).toEqual([
    200,
    {
      id: expect.any(String),
      sent: false,
      status: null,
      duration_ms: expect.any(Number),
      error: expect.stringMatching(/^127\.0\.0\.1:1 refused the connection$/),
      fix: expect.stringMatching(/start the receiver/),
    },
  ]);

  const page = await fetch(`${app.url}/status/alerts/test`, {
    method: 'POST',
    headers: { cookie: operator.cookie, origin: new URL(app.settings.PUBLIC_URL).origin },
    body: new URLSearchParams({ csrf: await csrfToken(app.url, operator.cookie) }),
  });
  const text = await page.text();
  expect(page.status).toBe(200);
  expect(text).toContain('The test alert failed: 127.0.0.1:');
  expect(text).toContain('Send a test alert</button>');
  expect(text).not.toContain('SECRETPATH');

  const entries = await app.sql<{ entry: object }>(
    `select entry from audit_log where action = 'alert.test' order by number`,
  );
  expect(entries).toHaveLength(2);
  expect(entries[0]!.entry).toMatchObject({
    actor: { name: operator.email },
    target: { kind: 'alert' },
    after: { sent: false, status: null },
  });
  expect(JSON.stringify(entries)).not.toContain('SECRETPATH');
});

test('the page Status shows alerts with the result of their requests', async () => {
  const operator = await addPerson(app, 'operator');
  const { id } = await app.addWebhook({ name: '<b>shop</b>' });
  await app.sql(
    `with alert as (
             insert into alerts (id, condition, subject_id, subject_name, since, began_at, value, threshold, checked_at)
             values (gen_random_uuid(), 'silent', $1, '<b>shop</b>', now(), now(), 7200, 3600, now()) returning id
           )
           insert into alert_requests (id, alert_id, type, body, state, created_at, next_attempt_at, last_attempt_at, last_error)
           select id, id, 'alert.began', '{}', 'failed', now(), now(), now(), 'receiver answered 500' from alert`,
    id,
  );
  const text = await (await fetch(`${app.url}/status`, { headers: { cookie: operator.cookie } })).text();
  expect(text).toContain(`<a href="/webhooks/${id}">Webhook &lt;b&gt;shop&lt;/b&gt; has received no event for 2 hours`);
  expect(text).toMatch(/given up<\/span> <span class="muted">receiver answered 500/);
});

test('weir alert test sends one, and its exit code says whether it arrived', async () => {
  const receiver = await startAlertReceiver();
  const run = async (overrides: Overrides, ...more: string[]) => {
    const other = await startTestApp(overrides, app);
    return weir(other, 'alert', 'test', ...more).finally(other.stop);
  };
  const settings = { ALERT_URL: receiver.url, ALERT_SECRET, ALERT_PRIVATE_NETWORKS: 'allow' };
  const sent = await run(settings);
  expect([sent.code, sent.out]).toEqual([0, expect.stringMatching(/^Sent: answered 200 after \d+ ms\.\n$/)]);
  expect(receiver.got.map(({ body }) => body.type)).toEqual(['alert.test']);
  receiver.status = 500;
  const refused = await run(settings, '--json');
  expect([refused.code, JSON.parse(refused.out)]).toMatchObject([1, { sent: false, status: 500 }]);
  const forbidden = await run({ ...settings, ALERT_PRIVATE_NETWORKS: 'refuse' });
  expect([forbidden.code, forbidden.err]).toEqual([
    1,
    expect.stringMatching(/not a public address; set ALERT_PRIVATE_NETWORKS=allow/),
  ]);
  expect((await run({})).err).toMatch(/ALERT_URL is unset/);
  expect(receiver.got).toHaveLength(2);
});
