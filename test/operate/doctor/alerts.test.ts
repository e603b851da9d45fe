import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkAlerts } from '../../../server/operate/doctor/alerts.ts';
import { type FreshDatabase, freshDatabase } from '../../helpers/postgres.ts';

let fresh: FreshDatabase;
beforeAll(async () => {
  fresh = await freshDatabase();
});
afterAll(() => fresh.drop());

const usual = {
  ALERT_URL: 'http://8.8.8.8/SECRET',
  ALERT_SECRET: 'whsec_x',
  ALERT_PRIVATE_NETWORKS: 'refuse',
} as const;
const check = async (given: object = {}) => (await checkAlerts(fresh.database, { ...usual, ...given }))[0]!;

test('the doctor checks where alerts are sent, and whether the latest request arrived', async () => {
  expect(await check({ ALERT_URL: undefined })).toMatchObject({ state: 'ok', finding: /unset/ });
  expect(await check()).toMatchObject({ state: 'ok', finding: 'alerts are sent to 8.8.8.8' });
  expect(await check({ ALERT_SECRET: undefined })).toMatchObject({ state: 'advice', finding: /not signed/ });
  expect(await check({ ALERT_URL: 'http://10.0.0.1/' })).toMatchObject({
    state: 'problem',
    finding: /10\.0\.0\.1 is not a public/,
  });
  expect(await check({ ALERT_URL: 'http://10.0.0.1/', ALERT_PRIVATE_NETWORKS: 'allow' })).toMatchObject({
    state: 'ok',
  });

  const id = randomUUID();
  const run = (text: string) => fresh.database.query({ text, values: [id] });
  await run(`insert into alerts (id, condition, subject_id, subject_name, since, began_at, value, checked_at)
             values ($1, 'spool', 'x', 'x', now(), now(), 1, now())`);
  await run(`insert into alert_requests (id, alert_id, type, body, created_at, next_attempt_at, last_attempt_at, last_error)
             values ($1, $1, 'alert.began', '{}', now(), now(), now(), '8.8.8.8 answered 500')`);
  expect(await check()).toMatchObject({
    state: 'problem',
    finding: 'the latest request to 8.8.8.8 failed: 8.8.8.8 answered 500',
  });
  await run(`update alert_requests set state = 'sent', last_error = null where id = $1`);
  expect(await check()).toMatchObject({ state: 'ok' });
});
