/** A snoozed condition comes back after its time, when it changes, or when it was gone; who snoozed it is in the audit log. */

import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { HOUR_MS } from '../../../server/base/time/durations.ts';
import { snooze, withSnoozes } from '../../../server/manage/conditions/snooze.ts';
import type { Condition, SnoozeSpan } from '../../../server/model/condition-list.ts';
import { systemActor } from '../../../server/store/audit/actor.ts';
import { addAgent, send, startAgentApp } from '../../helpers/agents.ts';
import { addPerson, csrfToken } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const nowMs = Date.now();
const app = shared(startAgentApp);

const deadLetters = (id: string): Condition => ({
  id: `dead_letters:${id}`,
  snoozed: null,
  kind: 'dead_letters',
  severity: 'warning',
  text: 'Agent billing has 12 dead letters.',
  fix: '',
  url: `https://weir.example.org/agents/${id}`,
  webhook_id: null,
  agent_id: id,
  name: 'billing',
  count: 12,
  expect_every_seconds: null,
  since: null,
});
const silent = (id: string): Condition => ({
  ...deadLetters(id),
  id: `silent:${id}`,
  kind: 'silent',
  count: null,
  since: '2026-11-22T11:00:00Z',
});
const database = (): Condition => ({ ...deadLetters(''), id: 'database', kind: 'database', count: null });

interface Case {
  span: SnoozeSpan;
  before: Condition;
  /** Undefined: it does not hold. */
  after?: Partial<Condition>;
  laterMs?: number;
  snoozed: boolean;
}

const cases: [string, Case][] = [
  [
    'an hour, before its end',
    { span: '1h', before: deadLetters(randomUUID()), after: { count: 99 }, laterMs: HOUR_MS - 1, snoozed: true },
  ],
  [
    'an hour, at its end',
    { span: '1h', before: deadLetters(randomUUID()), after: {}, laterMs: HOUR_MS, snoozed: false },
  ],
  [
    'a day, before its end',
    { span: '1d', before: deadLetters(randomUUID()), after: {}, laterMs: 24 * HOUR_MS - 1, snoozed: true },
  ],
  [
    'a day, at its end',
    { span: '1d', before: deadLetters(randomUUID()), after: {}, laterMs: 24 * HOUR_MS, snoozed: false },
  ],
  [
    'until it changes, and it does not',
    { span: 'change', before: deadLetters(randomUUID()), after: {}, laterMs: 167 * HOUR_MS, snoozed: true },
  ],
  [
    'until it changes, and a week is over',
    { span: 'change', before: deadLetters(randomUUID()), after: {}, laterMs: 168 * HOUR_MS, snoozed: false },
  ],
  [
    'until it changes, and less is counted',
    { span: 'change', before: deadLetters(randomUUID()), after: { count: 11, text: '11' }, snoozed: true },
  ],
  [
    'until it changes, and more is counted',
    { span: 'change', before: deadLetters(randomUUID()), after: { count: 13 }, snoozed: false },
  ],
  [
    'until it changes, and it lasts',
    { span: 'change', before: silent(randomUUID()), after: { text: 'for longer' }, snoozed: true },
  ],
  [
    'until it changes, and it began again',
    { span: 'change', before: silent(randomUUID()), after: { since: '2026-11-22T12:00:00Z' }, snoozed: false },
  ],
  [
    'until it changes, and its cause is another',
    { span: 'change', before: database(), after: { text: 'read-only' }, snoozed: false },
  ],
  ['nothing: the snooze ends', { span: 'none', before: deadLetters(randomUUID()), after: {}, snoozed: false }],
];

test.each(cases)('snoozed for %s', async (_, { span, before, after, laterMs = 1, snoozed }) => {
  const given = await snooze(app.database, systemActor, before, span, nowMs);
  const [found] = await withSnoozes(app.database, [{ ...before, ...after }], nowMs + laterMs);
  expect(found!.snoozed).toEqual(snoozed ? given.snoozed : null);
  if (snoozed) expect(given.snoozed).toMatchObject({ by: systemActor.name, until_change: span === 'change' });
});

test.each([
  ['a list from before it does not end it', 119_999, deadLetters(randomUUID()), true],
  ['it ends when the condition has gone', 120_001, deadLetters(randomUUID()), false],
  ['that of another machine is not ended', 120_001, { ...database(), id: `process:${randomUUID()}` }, true],
  ['nor that of connections of another machine', 120_001, { ...database(), id: 'connections:other' }, true],
] as const)('a snooze of a condition that is not in the list: %s', async (_, laterMs, condition, stays) => {
  await snooze(app.database, systemActor, condition, '1d', nowMs);
  await withSnoozes(app.database, [], nowMs + laterMs);
  const [found] = await withSnoozes(app.database, [condition], nowMs + laterMs);
  expect(found!.snoozed !== null).toBe(stays);
});

test('a user snoozes a condition over the API and on the overview, and ends the snooze; the audit log says who', async () => {
  const operator = await addPerson(app, 'operator');
  const administrator = await addPerson(app, 'administrator');
  const webhook = await app.addWebhook();
  const { id } = await addAgent(app, [webhook]);
  await send(webhook);
  await app.database.query({
    text: `update deliveries set state = 'dead', finished_at = now(), attempts = 10 where agent_id = $1`,
    values: [id],
  });
  const path = `/api/v1/conditions/dead_letters:${id}/snooze`;
  const shown = async () => {
    const page = await (await fetch(app.url, { headers: { cookie: operator.cookie } })).text();
    return [page.includes('1 condition needs a person'), page.includes('1 snoozed condition')];
  };
  expect(await shown()).toEqual([true, false]);

  const { status, body } = await operator.api('POST', path, { for: '1d' });
  expect(status).toBe(200);
  expect(body).toEqual({
    id: `dead_letters:${id}`,
    snoozed: { until: expect.any(String), until_change: false, by: expect.stringMatching(/@/) },
    kind: 'dead_letters',
    severity: 'warning',
    text: expect.stringMatching(/^Agent .+ has 1 dead letter\.$/),
    fix: expect.stringContaining('replay'),
    url: `${app.settings.PUBLIC_URL}/deliveries?state=dead&agent_id=${id}`,
    webhook_id: null,
    agent_id: id,
    name: expect.any(String),
    count: 1,
    expect_every_seconds: null,
    since: null,
  });
  expect((await operator.api('GET', '/api/v1/conditions')).body.items).toEqual([body]);
  expect(await shown()).toEqual([false, true]);
  const [entry] = (await administrator.api('GET', '/api/v1/audit?limit=1')).body.items;
  expect(entry).toMatchObject({
    action: 'condition.snooze',
    actor: { name: body.snoozed.by },
    target: { kind: 'condition', name: body.text },
    before: { snoozed: null },
    after: { snoozed: body.snoozed },
  });

  const form = new URLSearchParams({ for: 'none', csrf: await csrfToken(app.url, operator.cookie) });
  const origin = new URL(app.settings.PUBLIC_URL).origin;
  const sent = await fetch(`${app.url}/conditions/dead_letters:${id}/snooze`, {
    method: 'POST',
    redirect: 'manual',
    headers: { cookie: operator.cookie, origin },
    body: form,
  });
  expect([sent.status, sent.headers.get('location')]).toEqual([303, expect.stringMatching(/^\/\?notice=woken/)]);
  expect(await shown()).toEqual([true, false]);

  expect((await operator.api('POST', path, { for: '2h' })).status).toBe(422);
  const unknown = await operator.api('POST', `/api/v1/conditions/dead_letters:${randomUUID()}/snooze`, { for: '1h' });
  expect([unknown.status, unknown.body.code]).toEqual([404, 'condition_unknown']);
});
