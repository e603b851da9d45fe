/** Outages of the database by the seconds of a primary. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Live, Sample } from '../../../server/manage/live/counters.ts';
import { OutageLog, WAITING_MAX } from '../../../server/manage/live/outages.ts';
import { Tally } from '../../../server/manage/live/tally.ts';
import type { Outage } from '../../../server/model/issues.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';

const START_MS = Date.parse('2026-11-25T04:00:00Z');
const at = (second: number) => new Date(START_MS + second * 1_000).toISOString();

interface Counted {
  down: boolean;
  failed?: number;
  spooled?: number;
}

function second(place: number, { down, failed = 0, spooled = 0 }: Counted): Live {
  const database = down ? 'down' : 'up';
  const sample = { totals: {}, commitDurations: [], gauges: {}, database, unknownUrls: [] } as unknown as Sample;
  const tally = new Tally(START_MS);
  tally.take(1, { ...sample, startedMs: START_MS }, START_MS + place * 1_000);
  const live = tally.second(START_MS + place * 1_000, null);
  return { ...live, second: { ...live.second, duration_ms: 1_000, failed, spooled } };
}

function openLog(
  dataDir = temporaryDirectory(),
  store: (outages: readonly Outage[]) => Promise<void> = async () => {},
) {
  const log = new OutageLog({ dataDir, machine: 'one', store, onNotSaved: (error) => expect.fail(error.message) });
  const run = (from: number, to: number, counted: Counted) => {
    let shown = null;
    for (let place = from; place <= to; place++) shown = log.second(second(place, counted));
    return shown;
  };
  return { dataDir, log, run };
}

test('an outage has its begin, its last second and what was refused and spooled', async () => {
  const stored: Outage[] = [];
  const { log, run, dataDir } = openLog(undefined, async (outages) => void stored.push(...outages));
  run(1, 10, { down: false });
  expect(run(11, 20, { down: true, failed: 3, spooled: 2 })).toEqual({ began_at: at(10), refused: 30, spooled: 20 });
  // Answers that arrive when the database is back belong to it.
  run(21, 21, { down: false, failed: 1 });
  expect(run(22, 25, { down: false })).toBe(null);
  await log.close();
  expect(stored).toMatchObject([{ machine: 'one', began_at: at(10), ended_at: at(20), refused: 31, spooled: 20 }]);
  expect(existsSync(join(dataDir, 'outages.json'))).toBe(false);
});

test('a database that answers for less than 5 seconds does not end it', () => {
  const { run } = openLog();
  run(1, 3, { down: true, failed: 1 });
  run(4, 7, { down: false });
  expect(run(8, 8, { down: true, failed: 1 })).toEqual({ began_at: at(0), refused: 4, spooled: 0 });
});

test.each([
  [4, null],
  [5, { began_at: at(0), refused: 0, spooled: 0 }],
])('%i seconds without a request are shown as %o', (seconds, shown) => {
  expect(openLog().run(1, seconds, { down: true })).toEqual(shown);
});

test('a start without processes is not an outage', () => {
  const { log } = openLog();
  for (let place = 1; place < 10; place++)
    expect(log.second({ ...second(place, { down: true, failed: 1 }), processes: [] })).toBe(null);
});

test('an outage goes on after a restart', async () => {
  const first = openLog();
  first.run(1, 10, { down: true, failed: 1 });
  await first.log.close();
  const later = openLog(first.dataDir);
  expect(later.run(60, 61, { down: true, failed: 1 })).toEqual({ began_at: at(0), refused: 12, spooled: 0 });
});

test('an outage that was over while Weir was stopped ends when Weir was stopped', async () => {
  const first = openLog();
  first.run(1, 10, { down: true, failed: 1 });
  await first.log.close();
  const stored: Outage[] = [];
  const later = openLog(first.dataDir, async (outages) => void stored.push(...outages));
  later.run(60, 60, { down: false });
  await later.log.close();
  expect(stored).toMatchObject([{ began_at: at(0), ended_at: at(10), refused: 10 }]);
});

test('outages that cannot be stored are kept over a restart, the newest 100 of them', async () => {
  const away = openLog(undefined, () => Promise.reject(new Error('away')));
  for (let one = 0; one <= WAITING_MAX; one++) {
    away.run(10 * one + 1, 10 * one + 1, { down: true, failed: 1 });
    away.run(10 * one + 2, 10 * one + 9, { down: false });
  }
  await away.log.close();
  const stored: Outage[] = [];
  const back = openLog(away.dataDir, async (outages) => void stored.push(...outages));
  back.run(20_000, 20_000, { down: false });
  await back.log.close();
  expect(stored).toHaveLength(WAITING_MAX);
  expect(stored[0]).toMatchObject({ began_at: at(10) });
});
