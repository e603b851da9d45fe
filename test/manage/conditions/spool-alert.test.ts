import { expect, test } from 'vitest';
import { emptySpool } from '../../../server/receive/spool/contents.ts';
import { listAlerts } from '../../../server/store/queries/alerts/alerts.ts';
import { ALERT_SECRET, alertsOf, startAlertReceiver } from '../../helpers/alert-receiver.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { settingsOf, temporaryDirectory } from '../../helpers/settings.ts';
import { ofEach } from '../../helpers/shared.ts';

const startMs = Date.now();
const never = new AbortController().signal;
const fresh = ofEach(freshDatabase);

/** A machine whose spool is in use, with 12 events at first. `restart` keeps only its DATA_DIR and the database. */
async function machine() {
  const receiver = await startAlertReceiver();
  const settings = settingsOf({
    ALERT_URL: receiver.url,
    ALERT_SECRET,
    ALERT_PRIVATE_NETWORKS: 'allow',
    DATA_DIR: temporaryDirectory(),
  });
  const events: string[] = [];
  let contents = { ...emptySpool, events: 12, oldestMs: startMs };
  const make = () =>
    alertsOf(fresh.database, settings, { folder: '/spool/web-1-ab12', contents: async () => contents });
  let running = make();
  return {
    receiver,
    events,
    restart: () => {
      running = make();
    },
    fill: (events: number) => {
      contents = { ...emptySpool, events, oldestMs: startMs };
    },
    round: async (atMs: number) => {
      await running.alerts.evaluate(startMs + atMs);
      await running.alerts.deliver(never);
      events.push(...running.lines.splice(0).map(([event]) => event));
    },
  };
}

const stored = () => listAlerts(fresh.database, null, null, 10);
const types = (got: { body: { type: string } }[]) => got.map(({ body }) => body.type);

test('while the database is away the spool is reported once, also over a restart, and its end afterwards', async () => {
  const { receiver, events, restart, fill, round } = await machine();
  await fresh.cutOff();
  await round(0);
  expect(receiver.got.map(({ body }) => body)).toMatchObject([
    {
      type: 'alert.began',
      condition: 'spool',
      subject: { kind: 'machine', id: 'web-1-ab12' },
      value: 12,
      unit: 'events',
    },
  ]);
  await round(15_000);
  restart();
  await round(30_000);
  expect(types(receiver.got)).toEqual(['alert.began']);

  await fresh.restore();
  await round(45_000);
  expect(await stored()).toMatchObject([
    { id: receiver.got[0]!.body.alert_id, ended_at: null, requests: [{ id: receiver.got[0]!.id, state: 'sent' }] },
  ]);
  // A second outage before the end is the same alert.
  await fresh.cutOff();
  restart();
  await round(60_000);
  await fresh.restore();
  fill(0);
  await round(75_000);
  await round(135_000);
  await round(150_000);
  expect(types(receiver.got)).toEqual(['alert.began', 'alert.ended']);
  expect(await stored()).toHaveLength(1);
  expect(events.filter((event) => /began|ended/.test(event))).toEqual(['alert_began', 'alert_ended']);

  // The next outage is a new alert.
  await fresh.cutOff();
  await round(165_000);
  fill(3);
  await round(180_000);
  expect(types(receiver.got)).toEqual(['alert.began', 'alert.ended', 'alert.began']);
  expect(receiver.got[2]!.body.alert_id).not.toBe(receiver.got[0]!.body.alert_id);
});

test('what was not sent during the outage is sent after it, with the same webhook-id', async () => {
  const { receiver, round } = await machine();
  receiver.status = 500;
  await fresh.cutOff();
  await round(0);
  expect(receiver.got).toHaveLength(1);
  await fresh.restore();
  receiver.status = 200;
  await round(15_000);
  expect(types(receiver.got)).toEqual(['alert.began', 'alert.began']);
  expect(receiver.got[1]!.id).toBe(receiver.got[0]!.id);
  expect(await stored()).toMatchObject([{ requests: [{ state: 'sent' }] }]);
});
