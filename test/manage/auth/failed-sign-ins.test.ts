/** Failed sign-ins in the audit log: a bounded number of entries, and every failure is counted. */
import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  ACCOUNT_LIMIT,
  accountKey,
  recordFailure,
  recordTallies,
  TALLIES_MAX,
  TALLY_SECONDS,
} from '../../../server/manage/auth/throttle.ts';
import { systemActor } from '../../../server/store/audit/record.ts';
import { verifyAudit } from '../../../server/store/audit/verify.ts';
import { startTestApp } from '../../helpers/app.ts';
import { addPerson, PASSWORD, signIn } from '../../helpers/people.ts';
import { ofEach, shared } from '../../helpers/shared.ts';

const app = shared(() => startTestApp({ TRUSTED_PROXIES: '127.0.0.1' }));
const ada = ofEach(() => addPerson(app, 'viewer', PASSWORD));
let first: number;
beforeEach(async () => {
  await app.sql('delete from sign_in_tallies; delete from sign_in_failures');
  first = (await verifyAudit(app.database, null)).entries;
});

interface Entry {
  actor: { kind: string };
  target: { id: string | null; name: string };
  after: { failures: number; since?: string };
}
const entries = async (): Promise<Entry[]> =>
  (
    await app.sql<{ entry: Entry }>(
      `select entry from audit_log where number > $1 and action = 'session.sign_in_failed' order by number`,
      first,
    )
  ).map(({ entry }) => entry);
const counts = async () => (await entries()).map(({ after }) => after.failures);

let addresses = 0;
/** Failures of an account, each from another address and after its pause. */
async function fail(count: number, email: string): Promise<void> {
  for (let i = 0; i < count; i++) {
    await app.sql(`update sign_in_failures set last_failure_at = now() - interval '1 hour'`);
    const from = { 'x-forwarded-for': `2001:db8:${(++addresses).toString(16)}::1` };
    expect((await signIn(app, email, 'not the password', from)).status).toBe(401);
  }
}
const pass = (seconds: number) =>
  app.sql('update sign_in_tallies set started_at = started_at - make_interval(secs => $1)', seconds);

describe.each([
  ['an account', () => ada.email, () => ada.id],
  ['an account that does not exist', () => 'nobody@example.org', () => null],
])('of %s', (_which, email, id) => {
  test('the first failure, the pause and the count after an hour are recorded', async () => {
    await fail(12, email());
    expect(await counts()).toEqual([1, ACCOUNT_LIMIT.free]);
    await pass(TALLY_SECONDS - 60);
    await recordTallies(app.database);
    expect(await counts()).toEqual([1, ACCOUNT_LIMIT.free]);
    await pass(60);
    await recordTallies(app.database);
    const recorded = await entries();
    expect(recorded.map(({ actor, after }) => [actor.kind, after.failures])).toEqual([
      ['anyone', 1],
      ['anyone', ACCOUNT_LIMIT.free],
      ['system', 12],
    ]);
    for (const { target } of recorded) expect(target).toEqual({ kind: 'user', id: id(), name: email() });
    expect(Date.parse(recorded[2]!.after.since!)).toBeLessThan(Date.now() - (TALLY_SECONDS - 60) * 1000);
    await fail(1, email());
    expect(await counts()).toEqual([1, ACCOUNT_LIMIT.free, 12, 1]);
    expect(await verifyAudit(app.database, null)).toMatchObject({ intact: true });
  });
});

test('a recorded count of failed sign-ins is not recorded again', async () => {
  await fail(1, ada.email);
  await pass(TALLY_SECONDS);
  await recordTallies(app.database);
  expect(await counts()).toEqual([1]);
  expect(await app.sql('select from sign_in_tallies')).toEqual([]);
});

test('concurrent failures are counted once each', async () => {
  const from = (i: number) => ({ 'x-forwarded-for': `203.0.113.${i}` });
  const tries = Array.from({ length: 20 }, (_, i) => signIn(app, ada.email, 'not the password', from(i)));
  const failed = (await Promise.all(tries)).filter(({ status }) => status === 401).length;
  expect(failed).toBe(ACCOUNT_LIMIT.free);
  expect(await counts()).toEqual([1, ACCOUNT_LIMIT.free]);
});

test('failed sign-ins of more accounts than are counted separately are counted together', async () => {
  await app.sql(
    `insert into sign_in_tallies (key, target) select 'account:' || n, '{"kind":"user","id":null,"name":"x"}' from generate_series(1, $1::int) n`,
    TALLIES_MAX - 1,
  );
  const failAs = (name: string) =>
    recordFailure(app.database, systemActor, accountKey(name), { kind: 'user', id: null, name });
  const last = `${randomUUID()}@example.org`;
  await failAs(last);
  for (let i = 0; i < 7; i++) await failAs(`${randomUUID()}@example.org`);
  await failAs(last);
  expect((await entries()).map(({ target, after }) => [target.name, after.failures])).toEqual([
    [last, 1],
    ['other accounts', 1],
    ['other accounts', ACCOUNT_LIMIT.free],
  ]);
  await pass(TALLY_SECONDS);
  await recordTallies(app.database);
  expect((await entries()).slice(3).map(({ target, after }) => [target.name, after.failures])).toEqual(
    expect.arrayContaining([
      [last, 2],
      ['other accounts', 7],
    ]),
  );
});
