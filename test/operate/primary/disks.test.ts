import { statfsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { Disks } from '../../../server/operate/primary/disks.ts';
import { settingsOf, temporaryDirectory } from '../../helpers/settings.ts';
import { until } from '../../helpers/wait.ts';

test('the free bytes of each place that exists', async () => {
  const DATA_DIR = temporaryDirectory();
  const disks = new Disks(() => settingsOf({ DATA_DIR, ARCHIVE_DIR: '/proc', INGEST_SPOOL_DIR: `${DATA_DIR}/none` }));
  disks.look(0);
  await until(() => disks.family().values.length === 2);
  const free = Object.fromEntries(disks.family().values.map(({ labels, value }) => [labels.place, value]));
  const { bavail, bsize } = statfsSync(DATA_DIR);
  expect(free).toEqual({ data: expect.any(Number), archive: 0 });
  // Others write there as well.
  expect(Math.abs(free.data! - bavail * bsize)).toBeLessThan(2 ** 30);
  expect(new Set(disks.states.map(({ file_system }) => file_system)).size).toBe(2);
});

/** Disks that are read at once; `postgres` gives what `read` resolves with. */
function fakeDisks(read: () => Promise<number>) {
  const DATA_DIR = temporaryDirectory();
  return new Disks(
    () => settingsOf({ DATA_DIR }),
    async (path) => ({ disk: path, free: path === DATA_DIR ? 7 : await read() }),
  );
}

test('a mount that hangs is asked once, holds nothing up, and its last number is not shown', async () => {
  let hangs = false;
  let asked = 0;
  const disks = fakeDisks(() => {
    asked++;
    return hangs ? new Promise(() => {}) : Promise.resolve(9);
  });
  const shown = async () => {
    disks.look(0);
    await new Promise(setImmediate);
    return disks.family().values.map(({ labels, value }) => `${labels.place} ${value}`);
  };
  expect((await shown()).sort()).toEqual(['data 7', 'postgres 9']);
  hangs = true;
  await shown();
  expect(await shown()).toEqual(['data 7']);
  expect(await shown()).toEqual(['data 7']);
  expect(asked).toBe(2);
});

test('the forecast is by what was written in the last day, from an hour on', async () => {
  let free = 1_000;
  const disks = fakeDisks(async () => free);
  const fullIn = async (minutes: number) => {
    disks.look(minutes * 60_000);
    await new Promise(setImmediate);
    return disks.states.find(({ place }) => place === 'postgres')!.full_in_seconds;
  };
  expect(await fullIn(0)).toBeNull();
  free = 900;
  expect(await fullIn(59)).toBeNull();
  // 100 an hour.
  expect(await fullIn(60)).toBe(9 * 3_600);
  // The first hour is forgotten after a day, in which nothing was written.
  for (let minutes = 70; minutes < 26 * 60; minutes += 10) await fullIn(minutes);
  expect(await fullIn(26 * 60)).toBeNull();
});
