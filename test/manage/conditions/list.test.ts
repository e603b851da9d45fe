import { expect, test } from 'vitest';
import { alertsOf } from '../../helpers/alert-receiver.ts';
import { startTestApp } from '../../helpers/app.ts';
import { weir, weirJson } from '../../helpers/command.ts';
import { addPerson } from '../../helpers/people.ts';
import { someKey } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(() => startTestApp({ SECRETS_KEY: someKey }));

const evaluate = () => alertsOf(app.database, app.settings).alerts.evaluate(Date.now());
const receive = (id: string, ago: string) =>
  app.database.query({
    text: `update webhooks set last_event_at = now() - $2::interval where id = $1`,
    values: [id, ago],
  });

test('a webhook that is silent for its expect_every_seconds is an issue and an alert, until an event arrives', async () => {
  const operator = await addPerson(app, 'operator');
  const { id } = await weirJson(app, 'webhook', 'add', '--name', 'shop', '--expect-every-seconds', '3600');
  const path = `/api/v1/webhooks/${id}`;
  expect((await operator.api('GET', path)).body.expect_every_seconds).toBe(3600);
  for (const expect_every_seconds of [59, 31_536_001, 60.5])
    expect((await operator.api('PATCH', path, { expect_every_seconds })).status).toBe(422);
  const other = await app.addWebhook({ name: 'other', expect_every_seconds: 60 });
  await receive(other.id, '2 hours');
  await receive(id, '50 minutes');
  await operator.api('PATCH', path, { expect_every_seconds: 1_800 });

  // Its silence begins when it is enabled.
  const enabled = await app.addWebhook({ name: 'enabled', expect_every_seconds: 60, enabled: false });
  await receive(enabled.id, '7 days');
  await operator.api('PATCH', `/api/v1/webhooks/${enabled.id}`, { enabled: true });

  await evaluate();
  const issueOf = async (webhook: string) =>
    (await operator.api('GET', `/api/v1/issues?kind=silent&subject_id=${webhook}`)).body.items;
  expect(await issueOf(other.id)).toMatchObject([{ state: 'open', title: expect.stringMatching(/every 1 minute/) }]);
  expect(await issueOf(id)).toMatchObject([{ state: 'open', title: expect.stringMatching(/every 30 minutes/) }]);
  const active = (await operator.api('GET', '/api/v1/alerts?active=true')).body.items;
  expect(active).toHaveLength(2);
  expect(active.find((alert: { subject: { id: string } }) => alert.subject.id === id)).toMatchObject({
    condition: 'silent',
    subject: { kind: 'webhook', id, name: 'shop' },
    ended_at: null,
    threshold: 1_800,
    unit: 'seconds',
    url: `${app.settings.PUBLIC_URL}/webhooks/${id}`,
    requests: [],
  });

  await receive(id, '1 second');
  await app.database.query({
    text: `update alerts set calm_since = now() - interval '30 minutes' where subject_id = $1`,
    values: [id],
  });
  await evaluate();
  const first = (await operator.api('GET', '/api/v1/alerts?limit=1')).body;
  const second = (await operator.api('GET', `/api/v1/alerts?limit=1&cursor=${first.next_cursor}`)).body;
  expect(second.next_cursor).toBeNull();
  const ended = (await operator.api('GET', '/api/v1/alerts?active=false')).body.items;
  expect(ended).toMatchObject([{ subject: { id }, text: expect.stringMatching(/receives events again/) }]);
  expect(await issueOf(id)).toMatchObject([{ state: 'resolved' }]);
  expect([...first.items, ...second.items].map(({ subject }) => subject.id).sort()).toEqual([id, other.id].sort());

  expect((await weirJson(app, 'alert', 'list')).items).toHaveLength(2);
  const { out } = await weir(app, 'alert', 'list', '--active');
  expect(out).toMatch(
    /^BEGAN +ENDED +CONDITION +REQUESTS +ALERT\n\S+ +active +silent +- +Webhook other has received no event/,
  );
  expect(out.trimEnd().split('\n')).toHaveLength(2);
});
