import { describe, expect, test } from 'vitest';
import { checkDisks, type Disk } from '../../../server/operate/doctor/files.ts';
import { settingsOf, someKey } from '../../helpers/settings.ts';

const GIB = 2 ** 30;
const look = async (disks: Record<string, Disk>, environment: Record<string, string> = {}) => {
  const checks = await checkDisks('/data', settingsOf(environment), async (path) => disks[path] ?? null);
  return checks.map(({ state, finding }) => `${state} ${finding}`);
};
const server = { DATABASE_URL: 'postgres://weir@db.example/weir', SECRETS_KEY: someKey };

describe('the doctor checks the free space', () => {
  test.each<[string, number, string]>([
    ['plenty', 5 * GIB, 'ok'],
    ['less than the log of the database may need', 5 * GIB - 1, 'advice'],
    ['just above the limit', GIB / 2, 'advice'],
    ['nearly none', GIB / 2 - 1, 'problem'],
  ])('of an embedded database: %s', async (_, freeBytes, state) => {
    expect(await look({ '/data': { device: 1, freeBytes } })).toEqual([
      `${state} ${(freeBytes / GIB).toFixed(1)} GiB are free at /data`,
    ]);
  });

  test('of each file system, once', async () => {
    const disks = {
      '/data': { device: 1, freeBytes: 9 * GIB },
      '/data/postgres': { device: 2, freeBytes: 2 * GIB },
      '/data/postgres/pg_wal': { device: 2, freeBytes: 2 * GIB },
    };
    expect(await look(disks)).toEqual([
      'advice 2.0 GiB are free at /data/postgres/pg_wal',
      'ok 9.0 GiB are free at /data',
    ]);
  });

  test.each<[number, string]>([
    [GIB, 'ok'],
    [GIB - 1, 'advice'],
    [GIB / 2 - 1, 'problem'],
  ])('of DATA_DIR beside a server database: %d bytes', async (freeBytes, state) => {
    expect(await look({ '/data': { device: 1, freeBytes } }, server)).toEqual([
      expect.stringContaining(`${state} `) as unknown as string,
    ]);
  });
});
