import { statfsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { Disks } from '../../../server/operate/primary/disks.ts';
import { settingsOf, temporaryDirectory } from '../../helpers/settings.ts';
import { until } from '../../helpers/wait.ts';

test('the free bytes of each place that exists', async () => {
  const DATA_DIR = temporaryDirectory();
  const disks = new Disks(() => settingsOf({ DATA_DIR, ARCHIVE_DIR: '/proc', INGEST_SPOOL_DIR: `${DATA_DIR}/none` }));
  disks.look();
  await until(() => disks.family().values.length === 2);
  const free = Object.fromEntries(disks.family().values.map(({ labels, value }) => [labels.place, value]));
  const { bavail, bsize } = statfsSync(DATA_DIR);
  expect(free).toEqual({ data: expect.any(Number), archive: 0 });
  // Others write there as well.
  expect(Math.abs(free.data! - bavail * bsize)).toBeLessThan(2 ** 30);
});

test('a mount that hangs is asked once, holds nothing up, and its last number is not shown', async () => {
  const DATA_DIR = temporaryDirectory();
  let hangs = false;
  let asked = 0;
  const disks = new Disks(
    () => settingsOf({ DATA_DIR }),
    (path) => {
      if (path === DATA_DIR) return Promise.resolve(7);
      asked++;
      return hangs ? new Promise(() => {}) : Promise.resolve(9);
    },
  );
  const shown = async () => {
    disks.look();
    await Promise.resolve();
    return disks.family().values.map(({ labels, value }) => `${labels.place} ${value}`);
  };
  expect(await shown()).toEqual(['data 7', 'postgres 9']);
  hangs = true;
  await shown();
  expect(await shown()).toEqual(['data 7']);
  expect(await shown()).toEqual(['data 7']);
  expect(asked).toBe(2);
});
