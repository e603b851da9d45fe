import { expect, test } from 'vitest';
import { alertsOf } from '../../helpers/alert-receiver.ts';
import { startTestApp } from '../../helpers/app.ts';
import { weir } from '../../helpers/command.ts';
import { addPerson } from '../../helpers/people.ts';
import { someKey } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(() => startTestApp({ SECRETS_KEY: someKey }));

const evaluate = () => alertsOf(app.database, app.settings).alerts.evaluate(Date.now());
const receive = (id: string, ago: string) =>
  app.sql(`update webhooks set last_event_at = now() - $2::interval where id = $1`, id, ago);

test('alerts are listed by the API and by the command: active ones, ended ones, in pages', async () => {
  const operator = await addPerson(app, 'operator');
  const { id } = await app.addWebhook({ name: 'shop', expect_every_seconds: 1_800 });
  const other = await app.addWebhook({ name: 'other', expect_every_seconds: 60 });
  await receive(other.id, '2 hours');
  await receive(id, '50 minutes');
  // Its silence begins when it is enabled.
  const enabled = await app.addWebhook({ name: 'enabled', expect_every_seconds: 60, enabled: false });
  await receive(enabled.id, '7 days');
  await operator.api('PATCH', `/api/v1/webhooks/${enabled.id}`, { enabled: true });
  await evaluate();

  const list = async (query: string) => (await operator.api('GET', `/api/v1/alerts?${query}`)).body;
  const { items: active } = await list('active=true');
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
  await app.sql(`update alerts set calm_since = now() - interval '30 minutes' where subject_id = $1`, id);
  await evaluate();
  const first = await list('limit=1');
  const second = await list(`limit=1&cursor=${first.next_cursor}`);
  expect(second.next_cursor).toBeNull();
  expect((await list('active=false')).items).toMatchObject([
    { subject: { id }, text: expect.stringMatching(/receives events again/) },
  ]);
  expect([...first.items, ...second.items].map(({ subject }) => subject.id).sort()).toEqual([id, other.id].sort());
  const { out } = await weir(app, 'alert', 'list', '--active');
  expect(out).toMatch(
    /^BEGAN +ENDED +CONDITION +REQUESTS +ALERT\n\S+ +active +silent +- +Webhook other has received no event/,
  );
  expect(out.trimEnd().split('\n')).toHaveLength(2);
});
