import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { expect, test } from 'vitest';
import { MINUTE_MS } from '../../../server/base/time/durations.ts';
import type { DiskState } from '../../../server/model/machines.ts';
import { emptySpool } from '../../../server/receive/spool/contents.ts';
import { advisoryLocks } from '../../../server/store/advisory-locks.ts';
import { type AlertRow, listAlerts } from '../../../server/store/queries/alerts/alerts.ts';
import { addHistory } from '../../../server/store/queries/webhooks/history.ts';
import { alertsOf } from '../../helpers/alert-receiver.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { settingsOf, temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';

/** The queries of deliveries compare with the clock of the database. */
const startMs = Date.now();
const fresh = shared(freshDatabase);

const run = (text: string, values: unknown[] = []) => fresh.sql(text, ...values);
const iso = (ms: number) => new Date(ms).toISOString();

function machine(folder = 'one', spool = emptySpool, startedMs = 0, disks: DiskState[] = []) {
  const settings = settingsOf({
    DATA_DIR: temporaryDirectory(),
    ALERT_PENDING_SECONDS: '300',
    ALERT_REJECTIONS_PER_MINUTE: '60',
  });
  return alertsOf(fresh.database, settings, {
    folder: `/spool/${folder}`,
    contents: async () => spool,
    disks,
    startedMs,
  });
}

const addAgent = async (id: string) =>
  run(`insert into agents (id, name, lookup_id, secret_hash) values ($1, 'billing', $2, $3)`, [
    id,
    id.replaceAll('-', '').slice(0, 12),
    Buffer.alloc(32),
  ]);

async function addWebhook(id: string, more = '') {
  await run(`insert into webhooks (id, name) values ($1, 'shop')`, [id]);
  if (more !== '') await run(`update webhooks set ${more} where id = $1`, [id]);
}

async function addDelivery(agentId: string) {
  const webhookId = randomUUID();
  await addWebhook(webhookId);
  await run('insert into subscriptions (webhook_id, agent_id) values ($1, $2)', [webhookId, agentId]);
  await run(
    `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes)
     values (gen_random_uuid(), $1, $2, gen_random_uuid(), now(), 0)`,
    [webhookId, agentId],
  );
}

const reject = (webhookId: string, atMs: number, rejected: number) =>
  addHistory(fresh.database, [{ webhookId, minuteMs: Math.floor(atMs / MINUTE_MS) * MINUTE_MS, rejected }]);

interface Course {
  condition: AlertRow['condition'];
  /** The state before: a value below the threshold, or no value. */
  calm: (id: string) => Promise<unknown>;
  begin: (id: string) => Promise<unknown>;
  /** Between the two thresholds: keeps an alert. */
  between?: (id: string) => Promise<unknown>;
  end: (id: string) => Promise<unknown>;
  /** Time that the end takes. */
  calmMs: number;
  text: RegExp;
}

const waits = (id: string, seconds: number) =>
  run('update deliveries set available_at = $2 where agent_id = $1', [id, iso(startMs - seconds * 1000)]);
const dead = (id: string, secondsAgo: number) =>
  run(`update deliveries set state = 'dead', finished_at = $2 where agent_id = $1`, [
    id,
    iso(startMs - secondsAgo * 1000),
  ]);

const courses: Course[] = [
  {
    condition: 'pending',
    calm: async (id) => [await addAgent(id), await addDelivery(id), await waits(id, 290)],
    begin: (id) => waits(id, 372),
    between: (id) => waits(id, 200),
    end: (id) => waits(id, 100),
    calmMs: 60_000,
    text: /^The oldest pending delivery of agent billing has waited for 6 minutes \(limit: 5 minutes\)\.$/,
  },
  {
    condition: 'dead_letters',
    calm: async (id) => [await addAgent(id), await addDelivery(id), await dead(id, 3_600)],
    begin: (id) => dead(id, 20),
    end: (id) => run(`update deliveries set state = 'pending', finished_at = null where agent_id = $1`, [id]),
    calmMs: 0,
    text: /^Agent billing has 1 new dead letter\.$/,
  },
  {
    condition: 'rejections',
    calm: async (id) => [await addWebhook(id), await reject(id, startMs, 60), await reject(id, startMs - 600_000, 900)],
    begin: (id) => run('update history set rejected = 61 where webhook_id = $1', [id]),
    between: (id) => run('update history set rejected = 31 where webhook_id = $1', [id]),
    end: (id) => run('update history set rejected = 30 where webhook_id = $1', [id]),
    calmMs: 300_000,
    text: /^61 requests to webhook shop were rejected within a minute \(limit: 60\)\.$/,
  },
  {
    condition: 'silent',
    calm: (id) => addWebhook(id, `expect_every_seconds = 1800, last_event_at = '${iso(startMs - 1_700_000)}'`),
    begin: (id) => run('update webhooks set last_event_at = $2 where id = $1', [id, iso(startMs - 7_300_000)]),
    end: (id) => run('update webhooks set last_event_at = $2 where id = $1', [id, iso(startMs)]),
    calmMs: 1_800_000,
    text: /^Webhook shop has received no event for 2 hours \(expected: one every 30 minutes\)\.$/,
  },
];

test.each(courses)('$condition begins once and ends once, whichever machine looks', async (course) => {
  const { condition, calm, begin, between, end, calmMs, text } = course;
  const id = randomUUID();
  const alerts = async () =>
    (await listAlerts(fresh.database, null, null, 200)).filter((alert) => alert.subject_id === id);
  const look = async (nowMs: number) => {
    const { alerts, lines } = machine();
    await alerts.evaluate(nowMs);
    return lines.filter(([, fields]) => (fields as { subject: { id: string } }).subject.id === id);
  };

  await calm(id);
  expect(await look(startMs)).toEqual([]);
  await begin(id);
  expect(await look(startMs)).toMatchObject([['alert_began', { condition, text: expect.stringMatching(text) }]]);
  expect(await look(startMs)).toEqual([]);
  expect(await alerts()).toMatchObject([{ condition, began_at: iso(startMs), ended_at: null }]);
  if (between !== undefined) {
    await between(id);
    for (const nowMs of [startMs, startMs]) expect(await look(nowMs)).toEqual([]);
  }

  await end(id);
  // A condition that returns before the end has lasted is the same alert.
  if (calmMs > 0) {
    expect(await look(startMs)).toEqual([]);
    await run('update alerts set calm_since = $2 where subject_id = $1', [id, iso(startMs - calmMs + 1)]);
    expect(await look(startMs)).toEqual([]);
    await run('update alerts set calm_since = $2 where subject_id = $1', [id, iso(startMs - calmMs)]);
  }
  expect(await look(startMs)).toMatchObject([['alert_ended', { condition }]]);
  expect(await look(startMs)).toEqual([]);
  expect(await alerts()).toMatchObject([{ ended_at: iso(startMs) }]);

  await begin(id);
  expect(await look(startMs + 1)).toMatchObject([['alert_began', { condition }]]);
  expect(await alerts()).toHaveLength(2);
});

test('the spool of each machine is its own subject; that of a machine that is gone ends after a day', async () => {
  const used = { ...emptySpool, events: 12, oldestMs: startMs };
  const at = async (folder: string, nowMs: number, spool = emptySpool) => {
    const { alerts, lines } = machine(folder, spool);
    await alerts.evaluate(nowMs);
    return lines
      .filter(([, fields]) => (fields as { condition: string }).condition === 'spool')
      .map(([event, fields]) => [event, (fields as { subject: { id: string } }).subject.id]);
  };
  expect(await at('first', startMs, used)).toEqual([['alert_began', 'first']]);
  expect(await at('second', startMs, used)).toEqual([['alert_began', 'second']]);
  expect(await at('first', startMs + MINUTE_MS)).toEqual([]);
  expect(await at('first', startMs + 2 * MINUTE_MS)).toEqual([['alert_ended', 'first']]);
  expect(await at('first', startMs + 86_000_000)).toEqual([]);
  expect(await at('first', startMs + 86_400_000)).toEqual([]);
  expect(await at('first', startMs + 86_460_000)).toEqual([['alert_ended', 'second']]);
});

test('a low disk is reported by its machine, until it has had room for ten minutes', async () => {
  const disk = (free_bytes: number): DiskState => ({
    place: 'spool',
    file_system: '1',
    free_bytes,
    full_in_seconds: null,
  });
  const at = async (nowMs: number, ...disks: DiskState[]) => {
    const { alerts, lines } = machine('one', emptySpool, 0, disks);
    await alerts.evaluate(nowMs);
    return lines.flatMap(([event, fields]) => {
      const { condition, text } = fields as { condition: string; text: string };
      return condition === 'disk' ? [[event, text]] : [];
    });
  };
  const text = `The disk of spool on ${hostname()} has 0.5 GiB free: that is little, or it will be full within 3 days.`;
  expect(await at(startMs, disk(2 ** 30))).toEqual([]);
  expect(await at(startMs, disk(2 ** 29))).toEqual([['alert_began', text]]);
  await run(`update alerts set subject_id = 'elsewhere:spool' where condition = 'disk'`);
  for (const nowMs of [startMs, startMs + 600_000]) expect(await at(nowMs)).toEqual([]);
  await run(`update alerts set subject_id = $1 where condition = 'disk'`, [`${hostname()}:spool`]);
  expect(await at(startMs, disk(2 ** 31))).toEqual([]);
  expect(await at(startMs + 600_000, disk(2 ** 31))).toMatchObject([
    ['alert_ended', expect.stringContaining(`The disk of spool on ${hostname()} has room again.`)],
  ]);
});

test.each([
  { expects: 300, startedSeconds: 299, began: 0 },
  { expects: 300, startedSeconds: 300, began: 1 },
  { expects: 86_400, startedSeconds: 3_599, began: 0 },
  { expects: 86_400, startedSeconds: 3_600, began: 1 },
])('after a start, senders have the time that a webhook expects: $expects s, $startedSeconds s ago', async (one) => {
  const id = randomUUID();
  await addWebhook(id, `expect_every_seconds = ${one.expects}, last_event_at = now() - interval '9 days'`);
  const { alerts, lines } = machine('one', emptySpool, startMs - one.startedSeconds * 1000);
  await alerts.evaluate(startMs);
  expect(lines.filter(([, fields]) => JSON.stringify(fields).includes(id))).toHaveLength(one.began);
});

test('a restart does not end the alert of a silent webhook', async () => {
  const id = randomUUID();
  await addWebhook(id, `expect_every_seconds = 60, last_event_at = now() - interval '1 day'`);
  for (const startedMs of [0, startMs]) await machine('one', emptySpool, startedMs).alerts.evaluate(startMs);
  const [alert] = await fresh.sql('select calm_since from alerts where subject_id = $1', id);
  expect(alert).toEqual({ calm_since: null });
});

test('a temporary agent raises no alert', async () => {
  const id = randomUUID();
  await addAgent(id);
  await addDelivery(id);
  await waits(id, 900);
  await run('update agents set temporary = true where id = $1', [id]);
  const { alerts, lines } = machine();
  await alerts.evaluate(startMs);
  expect(JSON.stringify(lines)).not.toContain(id);
});

test('an alert that ends because its agent was revoked keeps the number of deliveries that were left', async () => {
  const id = randomUUID();
  await addAgent(id);
  await addDelivery(id);
  await waits(id, 900);
  await machine().alerts.evaluate(startMs);
  await run('update agents set revoked_at = now() where id = $1', [id]);
  await machine().alerts.evaluate(startMs);
  const { alerts, lines } = machine();
  await alerts.evaluate(startMs + MINUTE_MS);
  expect(lines).toMatchObject([
    ['alert_ended', { text: expect.stringMatching(/^Agent billing is revoked, 1 delivery undelivered\./) }],
  ]);
  await run('delete from deliveries where agent_id = $1', [id]);
  const kept = (await listAlerts(fresh.database, false, null, 200)).find((alert) => alert.subject_id === id);
  expect(kept).toMatchObject({ undelivered: 1 });
});

test('one machine evaluates at a time', async () => {
  const id = randomUUID();
  await addWebhook(id, `expect_every_seconds = 60, created_at = now() - interval '1 hour'`);
  await fresh.database.transaction(async (query) => {
    await query({ text: `select pg_advisory_xact_lock(${advisoryLocks.alerts})` });
    const { alerts, lines } = machine();
    await alerts.evaluate(startMs);
    expect(lines).toEqual([]);
  });
  const machines = [machine('one'), machine('two')];
  await Promise.all(machines.map(({ alerts }) => alerts.evaluate(startMs)));
  const began = machines.flatMap(({ lines }) => lines).filter(([, fields]) => JSON.stringify(fields).includes(id));
  expect(began).toMatchObject([['alert_began', { condition: 'silent' }]]);
});

test('a database that is away is one line in the log, and the evaluation continues afterwards', async () => {
  const { alerts, lines } = machine();
  await fresh.cutOff();
  for (let round = 0; round < 3; round++) await alerts.evaluate(startMs);
  expect(lines).toMatchObject([['alerts_failed', {}]]);
  await fresh.restore();
  const id = randomUUID();
  await addWebhook(id, `expect_every_seconds = 60, created_at = now() - interval '1 hour'`);
  await alerts.evaluate(startMs);
  expect(lines.at(-1)).toMatchObject(['alert_began', { subject: { id } }]);
  const [active] = alerts.families() as { values: { labels: { condition: string }; value: number }[] }[];
  expect(active!.values.find(({ labels }) => labels.condition === 'silent')!.value).toBeGreaterThan(0);
});

test('an alert does not end because a list is cut before its subject, and ends when its webhook is deleted', async () => {
  const id = randomUUID();
  const active = { text: 'select from alerts where subject_id = $1 and ended_at is null', values: [id] };
  const isActive = async () => (await fresh.database.query(active)).length > 0;
  await addWebhook(id, `expect_every_seconds = 1800, last_event_at = '${iso(startMs - 7_300_000)}'`);
  await machine().alerts.evaluate(startMs);
  expect(await isActive()).toBe(true);
  await run(
    `insert into webhooks (id, name, expect_every_seconds, last_event_at)
     select gen_random_uuid(), 'flood', 1800, $1 from generate_series(1, 1000)`,
    [iso(startMs - 8_000_000)],
  );
  await machine().alerts.evaluate(startMs);
  await run('update alerts set calm_since = $2 where subject_id = $1', [id, iso(startMs - 3_600_000)]);
  await machine().alerts.evaluate(startMs);
  expect(await isActive()).toBe(true);
  await run('update webhooks set deleted_at = now() where id = $1', [id]);
  await machine().alerts.evaluate(startMs);
  expect(await isActive()).toBe(false);
});
