/** Each condition is found at its limit, and not one below it. */

import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { beforeAll, expect, test } from 'vitest';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../server/base/time/durations.ts';
import { describeIssue, unstored } from '../../../server/manage/conditions/describe.ts';
import { heldReader } from '../../../server/manage/conditions/read.ts';
import type { Live, ProcessLive, Second } from '../../../server/manage/live/counters.ts';
import { type ConditionKind, conditionKinds, conditionOf } from '../../../server/model/conditions.ts';
import type { HistoryCounts } from '../../../server/model/history.ts';
import { DIED_MINUTES, type DiskState } from '../../../server/model/machines.ts';
import { realDisk } from '../../../server/receive/spool/disk.ts';
import { SpoolWriter } from '../../../server/receive/spool/writer.ts';
import type { Cell } from '../../../server/store/cells/cell.ts';
import type { CommitFailure } from '../../../server/store/commit-probe.ts';
import { addHistory } from '../../../server/store/queries/webhooks/history.ts';
import { firstKeptDay } from '../../../server/store/retention/drop-partitions.ts';
import { createPartitions } from '../../../server/store/retention/partitions.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { settingsOf, temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { newRow } from '../../receive/spool/events.ts';

/** The start of an hour, since the history counts by the hour. Not in the future: queries of deliveries compare with the clock of the database. */
const nowMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
/** What was received before the end of the day that retention drops in a day. */
const expiringMs = Math.floor((nowMs - 29 * DAY_MS) / DAY_MS) * DAY_MS;
const RETENTION_DAYS = 30;
const fresh = shared(freshDatabase);
beforeAll(async () => {
  await createPartitions(fresh.database, nowMs);
});

const run = (text: string, values: unknown[] = []) => fresh.sql(text, ...values);
const iso = (ms: number) => new Date(ms).toISOString();

interface Reported {
  failure?: CommitFailure | null;
  spoolFolder?: string | null;
  cell?: Cell;
  live?: Partial<ProcessLive>;
  /** Unix milliseconds of deaths of processes, newest first. */
  deaths?: number[];
  disks?: DiskState[];
  /** Connections refused in each of the last seconds. */
  refused?: number[];
}

const parts = () => ({
  settings: settingsOf({ ALERT_PENDING_SECONDS: '300', RETENTION_DAYS: String(RETENTION_DAYS) }),
  database: fresh.database,
  history: { latest: null, seconds: [] },
  commitFailure: async () => null,
  spoolFolder: null,
  cells: { all: (): Cell[] => [] },
});

/** What holds, by a reader that has cached nothing, with its value and its texts. */
async function read(reported: Reported = {}) {
  const { live, deaths, disks, refused = [], failure = null, spoolFolder = null, cell } = reported;
  const seconds = refused.map((connections_refused) => ({ connections_refused }) as Second);
  const newest = deaths?.map((ms) => ({ at: iso(ms), pid: 77, reason: 'SIGKILL', ran_ms: 1, recovered_ms: 1 }));
  const process_deaths = newest && { total: newest.length, newest };
  const latest =
    (live ?? newest) ? ({ processes: [{ pid: 77, ...live }], ...(newest && { process_deaths }), disks } as Live) : null;
  const { held } = await heldReader({
    ...parts(),
    ...(cell === undefined ? {} : { cells: { all: () => [cell] } }),
    history: { latest, seconds },
    commitFailure: async () => failure,
    spoolFolder,
  })(nowMs);
  return held.map((one) => ({
    ...describeIssue(unstored(one, nowMs), 'https://weir.example.org', nowMs),
    value: one.value,
    threshold: one.threshold,
  }));
}
type Found = Awaited<ReturnType<typeof read>>[number];

async function addWebhook(more = ''): Promise<string> {
  const id = randomUUID();
  await run(`insert into webhooks (id, name, created_at) values ($1, 'shop', $2)`, [id, iso(nowMs - 60 * DAY_MS)]);
  if (more !== '') await run(`update webhooks set ${more} where id = $1`, [id]);
  return id;
}

const count = (webhookId: string, agoMs: number, counts: Partial<HistoryCounts>) =>
  addHistory(fresh.database, [{ webhookId, minuteMs: nowMs - agoMs, ...counts }]);

async function addAgent(): Promise<{ id: string; webhook: string }> {
  const [id, webhook] = [randomUUID(), await addWebhook()];
  await run(`insert into agents (id, name, lookup_id, secret_hash) values ($1, 'billing', $2, $3)`, [
    id,
    id.replaceAll('-', '').slice(0, 12),
    Buffer.alloc(32),
  ]);
  await run('insert into subscriptions (webhook_id, agent_id) values ($1, $2)', [webhook, id]);
  return { id, webhook };
}

const addDelivery = (agent: { id: string; webhook: string }, { receivedMs = nowMs }: { receivedMs?: number }) =>
  run(
    `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, available_at)
     values (gen_random_uuid(), $1, $2, gen_random_uuid(), $3, 0, $4)`,
    [agent.webhook, agent.id, iso(receivedMs), iso(nowMs)],
  );

interface Limit {
  kind: ConditionKind;
  /** Makes it one below the limit; returns the id of the subject. */
  below: () => Promise<string>;
  /** Brings it to the limit. */
  reach: (id: string) => Promise<unknown>;
  found: Partial<Found>;
}

/** A value of what `make` adds, at the limit less one and at the limit. */
function valued(make: () => Promise<string>, change: string, below: unknown, reach: unknown) {
  const set = async (id: string, value: unknown) => run(`update ${change}`, [id, value]);
  return {
    below: async () => {
      const id = await make();
      await set(id, below);
      return id;
    },
    reach: (id: string) => set(id, reach),
  };
}
const anAgent = async () => (await addAgent()).id;
/** The id of the agent. */
async function aDelivery(): Promise<string> {
  const agent = await addAgent();
  await addDelivery(agent, {});
  return agent.id;
}
async function heldDelivery(): Promise<string> {
  const id = await aDelivery();
  await run('update subscriptions set order_id = 1 where agent_id = $1', [id]);
  await run(
    `update deliveries set order_key = 1, order_lane = 0, order_number = 1, available_at = 'infinity' where agent_id = $1`,
    [id],
  );
  return id;
}
async function oldSecret(): Promise<string> {
  const id = await addWebhook();
  await run(
    `insert into webhook_secrets (webhook_id, slot, sealed, created_at, expires_at)
     values ($1, 'current', '', $2, null), ($1, 'previous', '', $2, $2)`,
    [id, iso(nowMs - 2 * HOUR_MS)],
  );
  await count(id, 0, { accepted: 2, by_previous: 1 });
  return id;
}
/** Its longest pause is an hour. */
async function regularWebhook(): Promise<string> {
  const id = await addWebhook();
  for (let hours = 2; hours < 27; hours++) await count(id, hours * HOUR_MS, { accepted: 1 });
  return id;
}
/** Requests to a webhook, below the limit of a count, and what reaches it. */
function counted(below: Partial<HistoryCounts>, reach: Partial<HistoryCounts>, more = '') {
  const make = async () => {
    const id = await addWebhook(more);
    await count(id, 0, below);
    return id;
  };
  return { below: make, reach: (id: string) => count(id, 0, reach) };
}
const [MINUTES_5, LATER] = [iso(nowMs - 300_000), iso(nowMs - 300_001)];
const silence = 'webhooks set last_event_at = $2 where id = $1';

const limits: Limit[] = [
  {
    kind: 'undelivered',
    ...valued(aDelivery, 'agents set revoked_at = $2 where id = $1', null, iso(nowMs)),
    found: { value: 1, title: 'Agent billing is revoked, and 1 delivery to it is undelivered.' },
  },
  {
    kind: 'dead_letters',
    below: aDelivery,
    reach: (id) => run(`update deliveries set state = 'dead', finished_at = now() where agent_id = $1`, [id]),
    found: {
      value: 1,
      title: 'Agent billing has 1 dead letter: the agent gave no reason.',
      url: expect.stringMatching(/\/deliveries\?state=dead&agent_id=/),
    },
  },
  {
    kind: 'pending',
    ...valued(aDelivery, 'deliveries set available_at = $2 where agent_id = $1', MINUTES_5, LATER),
    found: {
      first_at: LATER,
      title: 'The oldest pending delivery of agent billing has waited for 5 minutes (limit: 5 minutes).',
    },
  },
  {
    kind: 'paused',
    ...valued(anAgent, 'agents set paused_at = $2 where id = $1', iso(nowMs - DAY_MS), iso(nowMs - DAY_MS - 1)),
    found: { first_at: iso(nowMs - DAY_MS - 1), title: 'Agent billing has been paused for 24 hours.' },
  },
  {
    kind: 'old_secret',
    ...valued(
      oldSecret,
      `webhook_secrets set expires_at = $2 where webhook_id = $1 and slot = 'previous'`,
      iso(nowMs + 2 * HOUR_MS),
      iso(nowMs + 2 * HOUR_MS - 2),
    ),
    found: { title: 'Webhook shop gets requests signed with its old secret, which ends in 119 minutes.' },
  },
  {
    kind: 'held',
    ...valued(heldDelivery, 'deliveries set received_at = $2 where agent_id = $1', MINUTES_5, LATER),
    found: {
      first_at: LATER,
      title: 'A delivery to agent billing is held by another one with its key for 5 minutes (limit: 5 minutes).',
      url: expect.stringMatching(/\/deliveries\?agent_id=.*&held=true$/),
    },
  },
  {
    kind: 'rejections',
    below: async () => {
      const id = await addWebhook();
      await count(id, 59 * MINUTE_MS, { accepted: 100, rejected: 4 });
      await count(id, 61 * MINUTE_MS, { rejected: 500 });
      return id;
    },
    reach: (id) => count(id, 0, { rejected: 1 }),
    found: { value: 5, title: '5 requests to webhook shop were rejected in the last hour.' },
  },
  {
    kind: 'limited',
    ...counted({ limited: 19 }, { limited: 1 }, `signature_scheme = 'github'`),
    found: {
      value: 20,
      title: '20 requests to webhook shop were rate limited in the last hour.',
      fix: expect.stringMatching(
        /^GitHub does not repeat refused requests; .* Raise the rate limit of the webhook if they are wanted\.$/,
      ),
    },
  },
  {
    kind: 'limited',
    ...counted({ accepted: 181, limited: 20 }, { accepted: -1 }),
    found: { value: 20, fix: expect.stringMatching(/^Some senders repeat refused requests, others do not\./) },
  },
  {
    kind: 'failing',
    ...counted({ disabled: 9, bytes: 1 }, { too_large: 1 }),
    found: { value: 1, title: 'No request to webhook shop was accepted in the last hour; 1 request was refused.' },
  },
  {
    kind: 'failing',
    ...counted({ accepted: 1, rejected: 4, limited: 2, length_required: 3, unavailable: 5 }, { accepted: -1 }),
    found: { value: 14 },
  },
  {
    kind: 'silent',
    ...valued(() => addWebhook('expect_every_seconds = 1800'), silence, iso(nowMs - 1_800_000), iso(nowMs - 1_800_001)),
    found: {
      first_at: iso(nowMs - 1_800_001),
      threshold: 1_800,
      title: 'Webhook shop has received no event for 30 minutes (expected: one every 30 minutes).',
    },
  },
  {
    kind: 'silent',
    ...valued(regularWebhook, silence, iso(nowMs - 2 * HOUR_MS), iso(nowMs - 2 * HOUR_MS - 1)),
    found: {
      threshold: null,
      title: 'Webhook shop has received no event for 2 hours (more than twice its longest pause in seven days).',
    },
  },
  {
    kind: 'filter',
    ...valued(anAgent, 'subscriptions set filter = $2 where agent_id = $1', 'bytes > 1', 'gone(body)'),
    found: {
      value: 1,
      title: expect.stringMatching(
        /^1 filter of agent billing does not judge, .*: that on webhook shop is not valid in this version \(.+\)\.$/,
      ),
    },
  },
  {
    kind: 'expiring',
    below: async () => {
      await addDelivery(await addAgent(), { receivedMs: expiringMs });
      return '';
    },
    reach: async () => addDelivery(await addAgent(), { receivedMs: expiringMs - 1 }),
    found: { value: 1, title: 'Retention removes 1 undelivered event within a day.' },
  },
  {
    kind: 'archive',
    below: async () => {
      await run(`create table events_${firstKeptDay(RETENTION_DAYS, nowMs)} (like events)`);
      return '';
    },
    reach: () => run(`create table events_${firstKeptDay(RETENTION_DAYS + 1, nowMs)} (like events)`),
    found: { value: 1, title: '1 table of old days cannot be archived.' },
  },
];

test.each(limits)('$kind holds at its limit, and not one below it', async ({ kind, below, reach, found }) => {
  const id = await below();
  const held = async () => (await read()).filter((one) => one.kind === kind && [one.subject.id, ''].includes(id));
  expect(await held()).toEqual([]);
  await reach(id);
  expect(await held()).toMatchObject([{ kind, severity: conditionOf(kind).severity, ...found }]);
});

/** Six rejections, one every `pauseMinutes`, the last `agoMinutes` ago. */
async function rejectedWebhook(pauseMinutes: number, agoMinutes: number): Promise<string> {
  const id = await addWebhook();
  for (let turn = 0; turn < 6; turn++) await count(id, (agoMinutes + turn * pauseMinutes) * MINUTE_MS, { rejected: 1 });
  return id;
}

const isRejected = async (id: string) =>
  (await read()).some(({ kind, subject }) => kind === 'rejections' && subject.id === id);

/** A minute ends a minute after its start. */
test.each([
  { pauseMinutes: 1, agoMinutes: 5, verifies: true, holds: true },
  { pauseMinutes: 1, agoMinutes: 6, verifies: true, holds: false },
  { pauseMinutes: 1, agoMinutes: 6, verifies: false, holds: true },
  { pauseMinutes: 6, agoMinutes: 12, verifies: true, holds: true },
  { pauseMinutes: 6, agoMinutes: 13, verifies: true, holds: false },
])('rejections have ended when requests verify and none is rejected for long enough: %j', async (one) => {
  const id = await rejectedWebhook(one.pauseMinutes, one.agoMinutes);
  await count(id, one.verifies ? MINUTE_MS : one.agoMinutes * MINUTE_MS, { accepted: 1 });
  expect(await isRejected(id)).toBe(one.holds);
});

test.each([
  ['accepted', 'accepted_event_id = gen_random_uuid()', 0, false],
  ['found to verify now', `checked_at = now(), checked_reason = 'verifies_now'`, 0, false],
  ['checked, and does not verify', `checked_at = now(), checked_reason = 'header_repeated'`, 0, true],
  ['accepted, and others were rejected after it', 'accepted_event_id = gen_random_uuid()', 1, true],
])('rejections have ended when the newest is accepted or verifies now; here it is %s', async (...row) => {
  const [, change, minutesLater, holds] = row;
  const id = await rejectedWebhook(1, 1 - minutesLater);
  await run(
    `insert into rejections (id, webhook_id, received_at, source_ip, reason, headers, signatures, bytes)
     values (gen_random_uuid(), $1, $2, '127.0.0.1', 'header_repeated', '', '[]', 0)`,
    [id, iso(nowMs - MINUTE_MS + 1)],
  );
  await run(`update rejections set ${change} where webhook_id = $1`, [id]);
  expect(await isRejected(id)).toBe(holds);
});

test('each reason is a condition of its own, and the samples share the exact number', async () => {
  const id = await rejectedWebhook(1, 1);
  await count(id, 0, { rejected: 24 });
  const sample = (reason: string, header: string | null, agoMs: number) =>
    run(
      `insert into rejections (id, webhook_id, received_at, source_ip, reason, header, headers, signatures, bytes)
       values (gen_random_uuid(), $1, $2, '127.0.0.1', $3, $4, '', '[]', 0)`,
      [id, iso(nowMs - agoMs), reason, header],
    );
  for (const agoMs of [3, 2, 1]) await sample('digest_differs', null, agoMs * MINUTE_MS);
  await sample('header_other', 'x-other', MINUTE_MS);
  await sample('header_missing', null, 61 * MINUTE_MS);
  const page = `https://weir.example.org/rejections?webhook_id=${id}&reason=`;
  expect((await read()).filter(({ subject }) => subject.id === id)).toMatchObject([
    {
      value: 23,
      title: '23 requests to webhook shop were rejected in the last hour: wrong secret, most likely.',
      url: `${page}digest_differs`,
      first_at: iso(nowMs - 3 * MINUTE_MS),
    },
    {
      value: 8,
      title: '8 requests to webhook shop were rejected in the last hour: signature in another header (x-other).',
      url: `${page}header_other`,
    },
  ]);
});

test('dead letters are a condition for each reason', async () => {
  const agent = await addAgent();
  for (const reason of ['timeout', 'timeout', null]) {
    await addDelivery(agent, {});
    await run(
      `update deliveries set state = 'dead', finished_at = now(), reason = $2 where agent_id = $1 and state = 'pending'`,
      [agent.id, reason],
    );
  }
  expect((await read()).filter(({ subject }) => subject.id === agent.id)).toMatchObject([
    { value: 2, title: 'Agent billing has 2 dead letters: timeout.', url: expect.stringMatching(/&reason=timeout$/) },
    { value: 1, url: expect.stringMatching(/agent_id=[^&]+$/) },
  ]);
});

test('the many reasons of an agent are bounded, also of one that is older than many others', async () => {
  const agent = await addAgent();
  await run(`update agents set created_at = '2020-01-01' where id = $1`, [agent.id]);
  await run(
    `insert into agents (id, name, lookup_id, secret_hash)
     select gen_random_uuid(), 'other', lpad(number::text, 12, '0'), sha256('') from generate_series(1, 200) number`,
  );
  await run(
    `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, state, finished_at, reason)
     select gen_random_uuid(), $1, $2, gen_random_uuid(), now(), 0, 'dead', now(), number::text
     from generate_series(1, 150) number`,
    [agent.webhook, agent.id],
  );
  const found = (await read()).filter(({ subject }) => subject.id === agent.id);
  expect(found).toHaveLength(101);
  expect(found[0]).toMatchObject({ value: 50, title: 'Agent billing has 50 dead letters: further reasons.' });
});

const lowDisk = (free_bytes: number, full_in_seconds: number | null = null): DiskState => ({
  place: 'data',
  file_system: '1',
  free_bytes,
  full_in_seconds,
});

const [long, recent] = [nowMs - DIED_MINUTES * MINUTE_MS, nowMs - DIED_MINUTES * MINUTE_MS + 1];
const noSpace = { sqlState: '53100', reason: 'could not extend file: No space left on device' };
/** What processes report: without the condition, with it, and its title. */
const reports: [ConditionKind, Reported, Reported, string][] = [
  ['process', { live: { state: 'draining' } }, { live: { state: 'unresponsive' } }, 'Process 77 does not respond.'],
  [
    'process_died',
    { deaths: [long] },
    { deaths: [recent] },
    `1 process of machine ${hostname()} died within 60 minutes: SIGKILL.`,
  ],
  [
    'process_died',
    { live: {} },
    { deaths: [nowMs, nowMs - 1] },
    `2 processes of machine ${hostname()} died within 60 minutes, the last: SIGKILL.`,
  ],
  [
    'connections',
    { refused: [0] },
    { refused: [2, 0, 1] },
    `Machine ${hostname()} refused 3 connections within 5 minutes: too many were open.`,
  ],
  [
    'disk',
    { live: {}, disks: [lowDisk(2 ** 30)] },
    { live: {}, disks: [lowDisk(2 ** 29, 3_600)] },
    `The disk of data on ${hostname()} has 0.5 GiB free, and will be full in 1 hour.`,
  ],
  [
    'rate_limits',
    { live: { rate_limit_store: 'ok' } },
    { live: { rate_limit_store: 'degraded' } },
    'Rate limits are off: the rate-limit store does not answer.',
  ],
  ['database', { failure: null }, { failure: noSpace }, 'Postgres does not commit events: its disk is full.'],
];

test.each(reports)('%s holds while a process reports it', async (kind, calm, held, title) => {
  const kinds = async (given: Reported) => (await read(given)).filter((one) => one.kind === kind);
  expect(await kinds(calm)).toEqual([]);
  expect(await kinds(held)).toMatchObject([{ severity: conditionOf(kind).severity, title }]);
});

test('cell holds while a cell cannot be used, or stores nothing', async () => {
  const held = async (trouble: Pick<Cell, 'away' | 'failure' | 'trouble'>) => {
    const cell = { number: 2, name: 'far', troubleSinceMs: nowMs, ...trouble } as Cell;
    return (await read({ cell })).filter(({ kind }) => kind === 'cell');
  };
  expect(await held({ away: null, failure: null, trouble: null })).toEqual([]);
  const away = 'connection refused';
  expect(await held({ away, failure: null, trouble: away })).toMatchObject([
    { severity: 'critical', title: `Cell 2 (far) cannot be used: ${away}.`, first_at: iso(nowMs) },
  ]);
  const failure = { sqlState: '53100', reason: 'No space left on device' };
  expect(await held({ away: null, failure, trouble: failure.reason })).toMatchObject([
    {
      subject: { kind: 'cell', id: '2' },
      title: 'Cell 2 (far) cannot be used: its disk is full.',
      fix: expect.stringMatching(/^Free space on the disk .* Postgres said: 53100: No space left on device$/),
    },
  ]);
});

test('spool holds while a spool has events', async () => {
  const folder = temporaryDirectory();
  const spools = async () => (await read({ spoolFolder: folder })).filter(({ kind }) => kind === 'spool');
  expect(await spools()).toEqual([]);
  const limits = { bytesMax: 1e8, ageMaxMs: 1e8, writers: () => 1 };
  const writer = new SpoolWriter({ disk: realDisk, folder, ...limits, nowMs: Date.now, onFailed() {} });
  expect(await writer.append([newRow()])).toBe(null);
  await writer.close();
  expect(await spools()).toMatchObject([
    { value: 1, subject: { name: hostname() }, title: expect.stringMatching(/: 1 event waits for the database\.$/) },
  ]);
});

test('every condition has a test of its limit', () => {
  const tested = [...limits.map(({ kind }) => kind), ...reports.map(([kind]) => kind), 'spool', 'cell'];
  expect([...new Set(tested)].sort()).toEqual([...conditionKinds].sort());
});

test('a failed read is not kept', async () => {
  const id = await addWebhook();
  await count(id, 0, { rejected: 9 });
  const reader = heldReader(parts());
  await fresh.cutOff();
  await expect(reader(nowMs)).rejects.toThrow();
  await fresh.restore();
  const { held } = await until(() => reader(nowMs).catch(() => null));
  expect(held.some(({ subject }) => subject?.id === id)).toBe(true);
});

test('a list that is cut at its limit says so', async () => {
  const cut = async () => [...(await heldReader(parts())(nowMs)).cut];
  expect(await cut()).toEqual([]);
  await run(
    `with added as (
       insert into webhooks (id, name) select gen_random_uuid(), 'flood' from generate_series(1, 1000) returning id)
     insert into history (webhook_id, step, at, accepted, duplicates, rejected, limited, bytes)
     select id, 60, $1, 0, 0, 1, 0, 0 from added`,
    [iso(nowMs - MINUTE_MS)],
  );
  expect(await cut()).toEqual(['rejections', 'limited', 'failing']);
  await run(
    `with added as (
       insert into webhooks (id, name) select gen_random_uuid(), 'rotated' from generate_series(1, 1000) returning id),
     secrets as (
       insert into webhook_secrets (webhook_id, slot, sealed, created_at, expires_at)
       select id, 'current', '\\x'::bytea, $1::timestamptz, null from added
       union all select id, 'previous', '\\x', $1, $1::timestamptz + interval '150 minutes' from added)
     insert into history (webhook_id, step, at, accepted, duplicates, rejected, limited, bytes, by_previous)
     select id, 900, $2, 1, 0, 0, 0, 0, 1 from added`,
    [iso(nowMs - 2 * HOUR_MS), iso(nowMs)],
  );
  expect(await cut()).toEqual(['old_secret', 'rejections', 'limited', 'failing']);
});

test('of many revoked agents each is found, with its undelivered deliveries', async () => {
  await run(
    `with added as (
       insert into agents (id, name, lookup_id, secret_hash, revoked_at)
       select gen_random_uuid(), 'gone ' || i, 'y' || lpad(i::text, 11, '0'), sha256(i::text::bytea), now() from generate_series(1, 300) i
       returning id)
     insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes)
     select gen_random_uuid(), gen_random_uuid(), id, gen_random_uuid(), $1, 0 from added, generate_series(1, 2)`,
    [iso(nowMs)],
  );
  const held = (await read()).filter(({ kind, subject }) => kind === 'undelivered' && subject.name.startsWith('gone '));
  expect([held.length, new Set(held.map(({ value }) => value))]).toEqual([300, new Set([2])]);
});

test('with ten thousand agents, what ended of one of them is known', async () => {
  await run(
    `insert into agents (id, name, lookup_id, secret_hash)
     select gen_random_uuid(), 'agent ' || i, 'x' || lpad(i::text, 11, '0'), sha256(i::text::bytea) from generate_series(1, 10000) i`,
  );
  const { cut } = await heldReader(parts())(nowMs);
  for (const kind of ['dead_letters', 'paused', 'pending'] as const) expect(cut).not.toContain(kind);
});

test('of more filters than are read, one that is suspended is found', async () => {
  const id = await anAgent();
  await run(
    `update subscriptions set filter = 'bytes > 1', filter_slow = 3, filter_slow_at = now() where agent_id = $1`,
    [id],
  );
  await run(`update agents set name = 'zebra' where id = $1`, [id]);
  const other = await anAgent();
  await run(
    `with added as (insert into webhooks (id, name) select gen_random_uuid(), 'shop' from generate_series(1, 2000) returning id)
     insert into subscriptions (webhook_id, agent_id, filter) select id, $1, 'bytes > 1' from added`,
    [other],
  );
  const held = (await read()).filter(({ kind }) => kind === 'filter');
  expect(held.map(({ subject }) => subject.name)).toContain('zebra');
});
