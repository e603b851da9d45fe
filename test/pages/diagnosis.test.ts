import { expect, test } from 'vitest';
import { describeSettings } from '../../server/manage/api/status/status-operations.ts';
import { diagnosisText, isChanged } from '../../server/pages/administration/status.ts';
import { settingsOf } from '../helpers/settings.ts';

const setting = (name: string, value: string | null, usual: string | null, secret = false) => ({
  name,
  value,
  default: usual,
  secret,
  is_set: value !== null || secret,
  meaning: '',
});
type Diagnosed = Parameters<typeof diagnosisText>[0];
const process = (state: 'serving' | 'draining') => ({ state }) as Diagnosed['processes'][number];

test('a diagnosis contains versions, problems and settings', () => {
  const text = diagnosisText({
    versions: { weir: '1.0.0', commit: 'b1fad92c2f04', node: '20.20.2', uwebsockets: '3.0.6', postgres: '15.18' },
    started_at: '2026-01-31T12:00:00.000Z',
    uptime_seconds: 60,
    processes: [process('serving'), process('serving'), process('draining')],
    process_deaths: {
      total: 1,
      newest: [{ at: '2026-01-31T12:00:30.000Z', pid: 77, reason: 'SIGKILL', ran_ms: 9_000, recovered_ms: 400 }],
    },
    database: { kind: 'embedded', place: '/data:5432/weir', bytes: 14_700_000, connections: 8, connections_max: 35 },
    schema: { version: 12, pending: ['0013_more.sql'] },
    partitions: { first: '2026-01-30', last: '2026-02-07' },
    retention_days: 30,
    rate_limit_store: { backend: 'memory', state: 'ok' },
    settings: [
      setting('HOST', '127.0.0.1', '127.0.0.1'),
      setting('PORT', '9000', '8080'),
      setting('OIDC_ISSUER', null, null),
      setting('SECRETS_KEY', null, null, true),
    ],
    doctor: {
      state: 'done',
      at: '2026-01-31T12:01:00.000Z',
      checks: [
        { name: 'disk', state: 'ok', finding: 'much is free', fix: null },
        { name: 'ports', state: 'problem', finding: 'taken', fix: 'free it' },
      ],
    },
  });
  expect(text).toBe(
    `Weir 1.0.0 (b1fad92c2f04), Node.js 20.20.2, uWebSockets.js 3.0.6, Postgres 15.18 (embedded)
Since 2026-01-31T12:00:00.000Z: 2 processes serving, 1 process draining, 1 died
  2026-01-31T12:00:30.000Z, process 77: SIGKILL
Database: 14.7 MB, 8 of 35 connections
Schema: version 12, missing 0013_more.sql
Days: 2026-01-30 to 2026-02-07, kept for 30
Rate limits: memory, ok
Doctor: done, 2 checks, 1 not ok
  problem, ports: taken. Fix: free it
Settings changed from the default:
  PORT=9000`,
  );
});

test.each<[string, Record<string, string>, string[]]>([
  ['nothing', {}, []],
  ['computed defaults', { PUBLIC_URL: 'http://127.0.0.1:8080', DATA_DIR: '/var/lib/weir' }, []],
  ['DATA_DIR', { DATA_DIR: '/srv/weir' }, ['DATA_DIR']],
  ['PUBLIC_URL, on which another depends', { PUBLIC_URL: 'https://weir.example' }, ['PUBLIC_URL']],
  ['WORKERS', { WORKERS: '1000' }, ['WORKERS']],
])('the changed settings when %s is set', (_, environment, names) => {
  const changed = describeSettings(settingsOf(environment)).filter(isChanged);
  expect(changed.map(({ name }) => name)).toEqual(names);
});
