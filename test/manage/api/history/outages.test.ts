/** GET /api/v1/outages, and the pages that show outages. */

import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { DAY_MS, HOUR_MS } from '../../../../server/base/time/durations.ts';
import type { Outage } from '../../../../server/model/issues.ts';
import { addOutages, deleteOldIssues } from '../../../../server/store/queries/alerts/issues.ts';
import { startTestApp } from '../../../helpers/app.ts';
import { addPerson } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';

const nowMs = Date.now();
const iso = (agoMs: number) => new Date(nowMs - agoMs).toISOString();
const outage = (beganAgoMs: number, endedAgoMs: number): Outage => ({
  id: randomUUID(),
  machine: 'one',
  began_at: iso(beganAgoMs),
  ended_at: iso(endedAgoMs),
  refused: 1_234,
  spooled: 7,
});
const ancient = outage(91 * DAY_MS, 90 * DAY_MS + HOUR_MS);
const old = outage(40 * DAY_MS, 39 * DAY_MS);
const recent = outage(3 * HOUR_MS, 2 * HOUR_MS);

const app = shared(startTestApp);
const operator = shared(() => addPerson(app, 'operator'));
beforeAll(async () => {
  await addOutages(app.database, [ancient, old, recent]);
  // As after an insert whose result was lost.
  await addOutages(app.database, [recent]);
});

const list = async (query = '') => (await operator.api('GET', `/api/v1/outages${query}`)).body.items;

test('the outages of 30 days are listed', async () => {
  expect(await list()).toEqual([recent]);
});

test('an outage is in every span that it lasted into', async () => {
  const half = iso(39.5 * DAY_MS);
  expect(await list(`?from=${half}`)).toEqual([recent, old]);
  expect(await list(`?from=${iso(50 * DAY_MS)}&to=${half}`)).toEqual([old]);
});

test('the newest ones, with a limit', async () => {
  expect(await list(`?from=${iso(60 * DAY_MS)}&limit=1`)).toEqual([recent]);
});

test('outages are deleted with other resolved issues, after 90 days', async () => {
  await deleteOldIssues(app.database.query);
  expect(await list(`?from=${iso(500 * DAY_MS)}`)).toEqual([recent, old]);
});
