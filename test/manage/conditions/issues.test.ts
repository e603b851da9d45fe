/** Issues: conditions that were seen. Each begins, is seen again, and is resolved by its cause alone; users say who looks after it. */
import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { HOUR_MS, MINUTE_MS } from '../../../server/base/time/durations.ts';
import { issueOperations } from '../../../server/manage/api/issues/issue-operations.ts';
import { describeIssue, type Held } from '../../../server/manage/conditions/describe.ts';
import { GROUPS_MAX, RETURN_MS, recordHeld } from '../../../server/manage/conditions/issues.ts';
import { Tally } from '../../../server/manage/live/tally.ts';
import { ISSUES_MAX } from '../../../server/model/issues.ts';
import type { CommitFailure } from '../../../server/store/commit-probe.ts';
import { addOutages, deleteOldIssues, listIssues } from '../../../server/store/queries/alerts/issues.ts';
import { addAgent, send, startAgentApp } from '../../helpers/agents.ts';
import { fakeTimers } from '../../helpers/clock.ts';
import { weir, weirJson } from '../../helpers/command.ts';
import { addPerson } from '../../helpers/people.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { settingsOf } from '../../helpers/settings.ts';
import { ofTest, shared } from '../../helpers/shared.ts';

const startMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;

describe('what holds', () => {
  const fresh = shared(freshDatabase);
  beforeEach(async () => {
    await fresh.sql('delete from issues');
  });
  const subject = { id: 'a', name: 'billing' };
  const dead = (value: number, reason = 'timeout'): Held => ({
    kind: 'dead_letters',
    subject,
    value,
    part: reason,
    cause: reason,
    since: new Date(startMs - 60_000).toISOString(),
  });
  const silent: Held = { kind: 'silent', subject, value: 600, threshold: 300 };

  /** The issues after an evaluation some time later, newest first. */
  async function seenAfter(ms: number, ...held: Held[]) {
    await recordHeld(fresh.database, held, startMs + ms);
    const rows = await listIssues(fresh.database, { state: null, kind: null, subjectIds: null }, null, 100);
    return rows.map((row) => describeIssue(row, 'https://weir.example.org', startMs + ms));
  }
  const iso = (ms: number) => new Date(startMs + ms).toISOString();

  test('begins, is seen again, and is resolved when it no longer holds', async () => {
    const [first] = await seenAfter(0, dead(2));
    expect(first).toMatchObject({
      kind: 'dead_letters',
      severity: 'warning',
      subject: { kind: 'agent', ...subject },
      title: 'Agent billing has 2 dead letters: timeout.',
      first_at: iso(-60_000),
      last_at: iso(0),
      count: 2,
      state: 'open',
      resolved_at: null,
      assignee: null,
      note: null,
      snoozed_until: null,
    });
    expect(first).not.toHaveProperty('began_after');
    // Written no more often than this, unless more are counted.
    expect(await seenAfter(9_999, dead(2))).toMatchObject([{ id: first!.id, last_at: iso(0) }]);
    expect(await seenAfter(9_999, dead(3))).toMatchObject([{ id: first!.id, last_at: iso(9_999), count: 3 }]);
    expect(await seenAfter(19_999, dead(3))).toMatchObject([{ last_at: iso(19_999), first_at: iso(-60_000) }]);
    const resolved = { id: first!.id, state: 'resolved', resolved_at: iso(20_000), last_at: iso(19_999), count: 3 };
    expect(await seenAfter(20_000)).toMatchObject([resolved]);
  });

  test.each([
    ['within an hour continues', RETURN_MS, 1],
    ['later is another one', RETURN_MS + 1, 2],
  ])('an issue that returns %s', async (_, ms, issues) => {
    await seenAfter(-1, silent);
    await seenAfter(0);
    const found = await seenAfter(ms - 1, silent);
    expect(found.map(({ state, count }) => [state, count])).toEqual(
      issues === 1
        ? [['open', 2]]
        : [
            ['open', 1],
            ['resolved', 1],
          ],
    );
  });

  test('what a machine finds is not resolved by another one, before none has found it for 45 seconds', async () => {
    const held: Held = { kind: 'process', subject: { id: '77', name: '77' } };
    await seenAfter(0, held);
    expect(await seenAfter(44_999)).toMatchObject([{ state: 'open' }]);
    expect(await seenAfter(45_000)).toMatchObject([{ state: 'resolved' }]);
  });

  test('thousands are written less often, and those of one machine as often as before', async () => {
    const many = Array.from({ length: 3_000 }, (_, i) => ({ ...dead(1), subject: { id: `${i}`, name: `${i}` } }));
    const held: Held[] = [...many, { kind: 'process', subject: { id: '77', name: '77' } }];
    const seen = async (ms: number) => {
      await recordHeld(fresh.database, held, startMs + ms);
      const rows = await fresh.sql<{ kind: string }>(
        'select distinct kind from issues where last_at = $1 order by 1',
        iso(ms),
      );
      return rows.map(({ kind }) => kind);
    };
    expect(await seen(0)).toEqual(['dead_letters', 'process']);
    expect(await seen(10_000)).toEqual(['process']);
    expect(await seen(15_005)).toEqual(['dead_letters']);
  });

  test('what a list that was cut does not name is not resolved', async () => {
    await seenAfter(0, dead(2));
    await recordHeld(fresh.database, [], startMs + 1, new Set(['dead_letters']));
    const [row] = await listIssues(fresh.database, { state: null, kind: null, subjectIds: null }, null, 1);
    expect(row).toMatchObject({ resolved_at: null, count: 2 });
  });

  test('what a list that was cut does not name is resolved when its webhook was deleted', async () => {
    const [kept, deleted] = [randomUUID(), randomUUID()];
    for (const id of [kept, deleted]) await fresh.sql(`insert into webhooks (id, name) values ($1, 'shop')`, id);
    await seenAfter(0, ...[kept, deleted].map((id) => ({ ...silent, subject: { id, name: 'shop' } })));
    await fresh.sql('update webhooks set deleted_at = now() where id = $1', deleted);
    await recordHeld(fresh.database, [], startMs + 1, new Set(['silent']));
    const rows = await listIssues(fresh.database, { state: 'resolved', kind: null, subjectIds: null }, null, 10);
    expect(rows.map(({ subject_id }) => subject_id)).toEqual([deleted]);
  });

  test('the groups of a subject are bounded, and further ones are counted as one', async () => {
    const flood = (from: number) => Array.from({ length: 30 }, (_, index) => dead(index + 1, `reason ${from + index}`));
    const first = await seenAfter(0, ...flood(0), { ...dead(7), kind: 'rejections' });
    expect(first).toHaveLength(GROUPS_MAX + 2);
    const sum = (30 * 31) / 2 - (GROUPS_MAX * (GROUPS_MAX + 1)) / 2;
    expect(first.find(({ title }) => title.endsWith('further reasons.'))!.count).toBe(sum);
    // Others, again and again.
    for (const round of [1, 2, 3]) await seenAfter(round * MINUTE_MS, ...flood(round * 100));
    const later = await seenAfter(4 * MINUTE_MS, ...flood(900));
    expect(later).toHaveLength(GROUPS_MAX + 2);
    expect(later.filter(({ state }) => state === 'open')).toMatchObject([{ count: (30 * 31) / 2 }]);
  });

  test('its hours have the largest count of each of the last 24', async () => {
    await seenAfter(0, dead(5));
    await seenAfter(1_000, dead(2));
    await seenAfter(2 * HOUR_MS, dead(3));
    const [found] = await seenAfter(2 * HOUR_MS, dead(3));
    expect(found!.hours).toEqual([...Array(21).fill(0), 5, 0, 3]);
    expect((await seenAfter(30 * HOUR_MS, dead(1)))[0]!.hours).toEqual([...Array(23).fill(0), 1]);
  });

  test('a snooze ends with its issue', async () => {
    const states = async (ms: number, ...held: Held[]) => (await seenAfter(ms, ...held)).map(({ state }) => state);
    expect(await states(0, dead(1))).toEqual(['open']);
    await fresh.sql('update issues set snoozed_until = $1', iso(HOUR_MS));
    expect(await states(HOUR_MS - 1, dead(1))).toEqual(['snoozed']);
    expect(await states(HOUR_MS, dead(1))).toEqual(['open']);
    await fresh.sql('update issues set snoozed_until = $1', iso(5 * HOUR_MS));
    expect(await states(HOUR_MS + 1)).toEqual(['resolved']);
    expect(await states(HOUR_MS + 2, dead(1))).toEqual(['open']);
  });

  test('the oldest resolved issues beyond the limit go, and those that hold stay', async () => {
    await fresh.sql(
      `insert into issues (id, kind, subject_id, first_at, last_at, count, facts, resolved_at)
             select gen_random_uuid(), 'silent', number, now(), now(), 1, '{"name":""}', now() - number * interval '1 second'
             from generate_series(1, $1::int) number`,
      ISSUES_MAX,
    );
    await seenAfter(0, silent);
    const count =
      'select count(*)::int as all, max(subject_id::int) filter (where resolved_at is not null) as oldest from issues';
    await deleteOldIssues(fresh.database.query);
    const [{ all, oldest }] = (await fresh.sql(
      count.replace('subject_id::int', `nullif(subject_id, 'a')::int`),
    )) as unknown as [{ all: number; oldest: number }];
    expect([all, oldest]).toEqual([ISSUES_MAX, ISSUES_MAX - 1]);
  });

  test('an outage that has ended is an issue', async () => {
    const id = '01a1ffb6-2a10-7c44-8f3e-0d5b7e91c2aa';
    const times = { began_at: iso(-10 * MINUTE_MS), ended_at: iso(-5 * MINUTE_MS) };
    await addOutages(fresh.database, [{ id, machine: 'one', ...times, refused: 14, spooled: 1 }]);
    // It is not stored before its end.
    expect(await seenAfter(0, { kind: 'database', cause: 'its disk is full' })).toMatchObject([
      {
        id,
        title: 'Postgres did not commit events of machine one for 5 minutes: 14 requests refused, 1 event spooled.',
        subject: { kind: 'machine', id: 'one' },
        state: 'resolved',
        count: 15,
      },
    ]);
  });
});

describe('with users', () => {
  const app = shared(startAgentApp);
  const operator = shared(() => addPerson(app, 'operator'));
  const viewer = shared(() => addPerson(app, 'viewer'));
  const administrator = shared(() => addPerson(app, 'administrator'));

  const setDead = (agent: string, minutesAhead: number, reason: string) =>
    app.sql(
      `update deliveries set state = 'dead', attempts = 10, reason = $3,
               finished_at = now() + $2::int * interval '1 minute' where agent_id = $1`,
      agent,
      minutesAhead,
      reason,
    );
  async function deadLetters(minutesAhead = 3, reason = 'no stock') {
    const webhook = await app.addWebhook();
    const agent = await addAgent(app, [webhook]);
    await operator.api('PATCH', `/api/v1/agents/${agent.id}`, { max_leased: 5 });
    await send(webhook);
    await setDead(agent.id, minutesAhead, reason);
    const { items } = (await operator.api('GET', `/api/v1/issues?subject_id=${agent.id}`)).body;
    return { agent, issue: items[0] };
  }

  test('an issue says after which change it began, and by whom', async () => {
    const { agent, issue } = await deadLetters();
    expect(issue).toMatchObject({
      kind: 'dead_letters',
      title: expect.stringMatching(/^Agent .+ has 1 dead letter: no stock\.$/),
      url: `${app.settings.PUBLIC_URL}/deliveries?state=dead&agent_id=${agent.id}&reason=no%20stock`,
      began_after: {
        audit_id: expect.any(Number),
        text: expect.stringMatching(/^Began (2|3) minutes|1\d\d seconds after the agent was changed by .+@.+\.$/),
      },
    });
    expect(issue.began_after.text).toContain(operator.email);
    const { items } = (await administrator.api('GET', `/api/v1/audit?cursor=${issue.began_after.audit_id + 1}&limit=1`))
      .body;
    expect(items).toMatchObject([{ action: 'agent.update', target: { id: agent.id } }]);
  });

  test('an operator assigns it, notes something and snoozes it; the audit log says so', async () => {
    const { issue } = await deadLetters();
    const path = `/api/v1/issues/${issue.id}`;
    const until = new Date(Date.now() + HOUR_MS).toISOString();
    const change = { assignee: 'ada@example.org', note: 'Asked the sender.', snoozed_until: until };
    const { status, body } = await operator.api('PATCH', path, change);
    expect([status, body]).toEqual([200, { ...issue, ...change, state: 'snoozed' }]);
    expect((await viewer.api('GET', path)).body).toMatchObject(change);
    const [entry] = (await administrator.api('GET', '/api/v1/audit?limit=1')).body.items;
    expect(entry).toMatchObject({
      action: 'issue.update',
      target: { kind: 'issue', id: issue.id, name: issue.title },
      before: { assignee: null, note: null, snoozed_until: null },
      after: change,
    });
    const listed = async (query: string) =>
      (await viewer.api('GET', `/api/v1/issues?subject_id=${issue.subject.id}&${query}`)).body.items.length;
    expect([await listed('state=open'), await listed('state=snoozed'), await listed('kind=silent')]).toEqual([0, 1, 0]);
    const { body: again } = await operator.api('PATCH', path, { snoozed_until: null });
    expect(again).toMatchObject({ state: 'open', assignee: 'ada@example.org', note: 'Asked the sender.' });
    for (const wrong of [{ snoozed_until: '2020-01-01T00:00:00Z' }, { state: 'resolved' }, { assignee: '' }])
      expect((await operator.api('PATCH', path, wrong)).status).toBe(422);
  });

  test('of two changes at once that both refer to what was read, one is refused', async () => {
    const { issue } = await deadLetters();
    const path = `/api/v1/issues/${issue.id}`;
    const etag = (await operator.api('GET', path)).headers.get('etag')!;
    const change = (note: string) => operator.api('PATCH', path, { note }, { 'if-match': etag });
    const answers = await Promise.all(['one', 'other'].map(change));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 412]);
  });

  test('the issues of up to 100 webhooks or agents can be asked for together', async () => {
    const [one, other] = [await deadLetters(), await deadLetters()];
    const listed = (ids: string[]) => viewer.api('GET', `/api/v1/issues?subject_id=${ids.join(',')}`);
    const ids = [one.agent.id, other.agent.id, ...Array.from({ length: 98 }, randomUUID)];
    const { body } = await listed(ids);
    expect(body.items.map(({ id }: { id: string }) => id)).toEqual([other.issue.id, one.issue.id]);
    expect((await listed([...ids, randomUUID()])).body).toMatchObject({
      code: 'invalid_request',
      errors: [{ parameter: 'subject_id' }],
    });
  });

  test('it is resolved when its cause is gone, and stays in the list', async () => {
    const { agent, issue } = await deadLetters(0);
    await operator.api('POST', '/api/v1/deliveries/dismiss', { agent_id: agent.id });
    expect((await operator.api('GET', `/api/v1/issues/${issue.id}`)).body).toMatchObject({ state: 'resolved' });
    const { items } = (await operator.api('GET', '/api/v1/issues?state=resolved')).body;
    expect(items.map(({ id }: { id: string }) => id)).toContain(issue.id);
  });

  test('reasons of control characters, and with a pair where they are cut, are issues like others', async () => {
    for (const reason of [`${'x'.repeat(119)}\u{1f600}yz`, '\u0001'.repeat(300)]) {
      const { issue } = await deadLetters(0, reason);
      expect(issue.title).toContain('has 1 dead letter');
      expect((await viewer.browse('GET', '/')).status).toBe(200);
    }
  });

  test('an issue of a kind that a later release knows is left out', async () => {
    await app.sql(`insert into issues (id, kind, subject_id, first_at, last_at, count, facts)
             values (gen_random_uuid(), 'of_later', '', now(), now(), 1, '{"name":""}')`);
    const { status, body } = await viewer.api('GET', '/api/v1/issues');
    expect([status, body.items.some(({ kind }: { kind: string }) => kind === 'of_later')]).toEqual([200, false]);
  });

  test('the page has its form, and the overview the issue', async () => {
    const { issue } = await deadLetters();
    const shown = async (path: string) => (await operator.browse('GET', path)).text;
    expect(await shown('/')).toMatch(/\d+ issues? needs? a person/);
    const page = await shown('/issues');
    expect(page).toContain(issue.title.slice(0, -1));
    expect(page).toContain(issue.began_after.text);
    const fields = { assignee: '', note: 'Two\r\nlines', snooze: '1h', mine: operator.email };
    const { status, headers } = await operator.submit(`/issues/${issue.id}`, fields);
    expect([status, headers.get('location')]).toEqual([
      303,
      expect.stringMatching(/^\/issues\?state=snoozed&notice=saved/),
    ]);
    const changed = (await operator.api('GET', `/api/v1/issues/${issue.id}`)).body;
    expect(changed).toMatchObject({ assignee: operator.email, note: 'Two\nlines', state: 'snoozed' });
    await operator.submit(`/issues/${issue.id}`, { assignee: '', note: '', snooze: 'keep' });
    const kept = (await operator.api('GET', `/api/v1/issues/${issue.id}`)).body;
    expect(kept).toMatchObject({ assignee: null, note: null, snoozed_until: changed.snoozed_until });
    expect(await shown('/issues?state=snoozed')).toContain(issue.title.slice(0, -1));
    expect(await (await viewer.browse('GET', '/issues')).text).not.toContain('action="/issues/');
  });

  test('the commands list, show, assign and snooze issues', async () => {
    const { agent, issue } = await deadLetters();
    const { out } = await weir(app, 'issue', 'list', '--state', 'open', '--agent', agent.id);
    expect(out).toMatch(
      /^ID +STATE +FIRST +LAST +COUNT +ASSIGNEE +ISSUE\n\S+ +open .+ has 1 dead letter: no stock\.\n$/,
    );
    expect(await weirJson(app, 'issue', 'show', issue.id)).toMatchObject({ id: issue.id, count: 1 });
    const assigned = await weirJson(app, 'issue', 'assign', issue.id, 'ada@example.org', '--note', 'known');
    expect(assigned).toMatchObject({ assignee: 'ada@example.org', note: 'known' });
    expect((await weir(app, 'issue', 'assign', issue.id)).out).toMatch(/^Not assigned: /);
    const { snoozed_until } = await weirJson(app, 'issue', 'snooze', issue.id, '--for', '2h');
    expect(Math.abs(Date.parse(snoozed_until) - Date.now() - 2 * HOUR_MS)).toBeLessThan(MINUTE_MS);
    expect((await weir(app, 'issue', 'snooze', issue.id, '--end')).out).toMatch(/^Not snoozed: /);
  });
});

const insertAgents = (count: number) =>
  `insert into agents (id, name, lookup_id, secret_hash, paused_at)
   select gen_random_uuid(), 'agent ' || i, lpad(i::text, 12, '0'), sha256(i::text::bytea), now() - interval '2 days' from generate_series(1, ${count}) i`;

test('readers share an update that found thousands', async () => {
  const app = await startAgentApp();
  const operator = await addPerson(app, 'operator');
  const pause = (paused: string, agents: string) =>
    app.sql(`update agents set paused_at = ${paused} where name ${agents}`);
  const open = async () =>
    (await operator.api('GET', '/api/v1/issues?state=open&kind=paused&limit=1')).body.items.length;
  await app.sql(insertAgents(1001));
  await pause('null', `<> 'agent 1'`);
  expect(await open()).toBe(1);
  await pause('null', 'is not null');
  expect(await open()).toBe(0);
  await pause(`now() - interval '2 days'`, 'is not null');
  // A request does not wait for longer than a second.
  await expect.poll(open, { timeout: 30_000 }).toBe(1);
  await pause('null', 'is not null');
  expect(await open()).toBe(1);
});

test('no update is shared during an outage, and none for longer when the clock is set back', async () => {
  const fresh = await ofTest(freshDatabase());
  fakeTimers({ toFake: ['Date', 'performance'] });
  let failure: CommitFailure | null = { sqlState: '53100', reason: 'could not extend file' };
  const { updateIssues, operations } = issueOperations({
    settings: settingsOf({}),
    database: fresh.database,
    history: { latest: null, seconds: [] },
    commitFailure: async () => failure,
    spoolFolder: null,
    cells: { all: () => [] },
  });
  const { handle } = operations.listIssues;
  const kinds = async () => {
    const reply = await handle({ query: { state: 'open', limit: 1 } } as Parameters<typeof handle>[0]);
    return (reply as Extract<typeof reply, { kind: 'done' }>).body.items.map(({ kind }) => kind);
  };
  await fresh.sql(insertAgents(1001));
  await updateIssues();
  expect(await kinds()).toEqual(['database', 'paused']);
  failure = null;
  await expect.poll(kinds).toEqual(['paused']);
  await updateIssues();

  await fresh.sql('update agents set paused_at = null');
  expect(await kinds()).toEqual(['paused']);
  vi.setSystemTime(Date.now() - HOUR_MS);
  vi.advanceTimersByTime(15_000);
  await expect.poll(kinds).toEqual([]);
});

test('a process looks for issues as often after the clock was set back', async () => {
  const app = await ofTest(startAgentApp());
  fakeTimers({ toFake: ['Date', 'performance'] });
  const tally = new Tally(Date.now());
  tally.take(process.pid, app.app.sample(), Date.now());
  const second = tally.second(Date.now(), null);
  const open = async () => (await app.sql(`select from issues where kind = 'paused' and resolved_at is null`)).length;
  await app.sql(insertAgents(1));
  app.app.live(second);
  await expect.poll(open).toBe(1);

  await app.sql(`update agents set paused_at = null`);
  vi.setSystemTime(Date.now() - HOUR_MS);
  vi.advanceTimersByTime(15_000);
  app.app.live(second);
  await expect.poll(open).toBe(0);
});
