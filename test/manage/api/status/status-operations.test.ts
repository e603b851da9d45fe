/** Settings on the status. */
import { expect, test } from 'vitest';
import { settingTable } from '../../../../server/base/settings/table.ts';
import type { Setting } from '../../../../server/base/settings/values.ts';
import { describeSettings } from '../../../../server/manage/api/status/status-operations.ts';
import { settingsOf, someKey } from '../../../helpers/settings.ts';

const secrets: Record<string, string> = {
  DATABASE_URL: 'postgres://weir:hunter2hunter2@db.internal/weir',
  POSTGRES_PASSWORD: 'swordfish swordfish',
  OIDC_CLIENT_SECRET: 'a client secret',
  RATE_LIMIT_SHARED_URL: 'redis://:redis-secret@redis.internal:6379',
  RQ_SHARED_URL: 'redis://:other-secret@redis.internal:6379',
  SECRETS_KEY: someKey,
  SECRETS_KEY_PREVIOUS: Buffer.alloc(32, 9).toString('base64'),
  ALERT_URL: 'https://alerts.internal/hooks/secret-path',
  ALERT_SECRET: `whsec_${Buffer.alloc(32, 8).toString('base64')}`,
  OTEL_EXPORTER_OTLP_HEADERS: 'api-key=a-secret-of-traces',
  ADMIN_PASSWORD: 'a long enough password',
};

test('the status shows whether a secret setting is set, and never its value', () => {
  const names = Object.entries<Setting>(settingTable).flatMap(([name, { secret }]) => (secret ? [name] : []));
  expect(Object.keys(secrets).sort()).toEqual(names.sort());
  const rows = describeSettings(settingsOf({ ...secrets, ADMIN_EMAIL: 'first@example.org' }));
  for (const name of names)
    expect(rows.find((row) => row.name === name)).toMatchObject({ value: null, is_set: true, secret: true });
  const text = JSON.stringify(rows);
  for (const secret of Object.values(secrets)) expect(text).not.toContain(secret);
  expect(text).not.toContain('hunter2');
});

test('the status shows all other settings with their current values', () => {
  const rows = describeSettings(settingsOf({ CORS_ORIGINS: 'https://a.example, https://b.example', WORKERS: '3' }));
  const value = (name: string) => rows.find((row) => row.name === name)!.value;
  expect(rows).toHaveLength(Object.keys(settingTable).length);
  expect(value('CORS_ORIGINS')).toBe('https://a.example, https://b.example');
  expect(value('WORKERS')).toBe('3');
  expect(value('PORT')).toBe('8080');
  expect(rows.find((row) => row.name === 'OIDC_ISSUER')).toMatchObject({ value: null, is_set: false });
});
