import { expect, test } from 'vitest';
import { describeSettings } from '../../server/manage/api/status/operations.ts';
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
test('a diagnosis is the status with the changed settings, and contains no secret', () => {
  const given = [
    setting('HOST', '127.0.0.1', '127.0.0.1'),
    setting('PORT', '9000', '8080'),
    setting('SECRETS_KEY', null, null, true),
  ];
  const status = { retention_days: 30, settings: given } as Parameters<typeof diagnosisText>[0];
  expect(JSON.parse(diagnosisText(status))).toEqual({
    retention_days: 30,
    settings: { PORT: '9000', SECRETS_KEY: 'set' },
  });
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
