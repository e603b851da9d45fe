import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { HOUR_MS } from '../../../server/base/time/durations.ts';
import { removeSavedWebhooks, savedWebhooks } from '../../../server/operate/primary/saved-webhooks.ts';
import type { Database } from '../../../server/store/connect/pool.ts';
import { DatabaseUnavailable } from '../../../server/store/connect/unavailable.ts';
import { readWebhooks } from '../../../server/store/queries/webhooks/webhooks.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { made, newWebhook, webhooksOf } from '../../helpers/webhooks.ts';

const key = randomBytes(32).toString('base64');
const otherKey = randomBytes(32).toString('base64');
const startMs = Date.UTC(2026, 0, 31);
const database = shared(freshDatabase);
const dataDir = temporaryDirectory();
const file = join(dataDir, 'webhooks.saved');
beforeAll(async () => {
  made(await webhooksOf(database, [key]).add(newWebhook({ secret: 'sesame', dedupe_header: 'x-id' })));
});

function open({ keys = [key], nowMs = startMs, failed = [] as Error[], opened = database.database } = {}) {
  return savedWebhooks({
    dataDir,
    keys,
    database: opened,
    ageMaxMs: () => 24 * HOUR_MS,
    nowMs: () => nowMs,
    onFailed: (error) => failed.push(error),
  });
}

async function save(options?: Parameters<typeof open>[0]): Promise<void> {
  await rm(file, { force: true });
  const saved = open(options);
  saved.save();
  await until(() => saved.read() !== null);
  await saved.close();
}

test('a copy holds the rows as they are read, and no secret in clear text', async () => {
  await save();
  const rows = open().read()!;
  expect(rows).toEqual(await readWebhooks(database.database, null, 10));
  expect(rows[0]!.sealed[0]).toBeInstanceOf(Buffer);
  expect((await readFile(file)).includes('x-id')).toBe(false);
  expect(open({ keys: [otherKey, key] }).read()).toEqual(rows);
  expect(open({ nowMs: startMs + 24 * HOUR_MS }).read()).toEqual(rows);
});

test.each([
  { what: 'is missing', change: () => rm(file) },
  { what: 'is of other keys', options: { keys: [otherKey] } },
  { what: 'is too old', options: { nowMs: startMs + 24 * HOUR_MS + 1 } },
  { what: 'is cut', change: async () => writeFile(file, (await readFile(file)).subarray(0, -1)) },
  {
    what: 'was changed',
    change: async () => {
      const bytes = await readFile(file);
      bytes[bytes.length >> 1]! ^= 1;
      await writeFile(file, bytes);
    },
  },
  { what: 'is empty', change: () => writeFile(file, '') },
])('a copy that $what is not used', async ({ change, options }) => {
  await save();
  await change?.();
  expect(open(options).read()).toBeNull();
});

test('a change while a copy is written is in the next', async () => {
  await save();
  const saved = open();
  saved.save();
  const { id } = made(await webhooksOf(database, [key]).add(newWebhook({ secret: 'sesame' })));
  saved.save();
  await until(() => saved.read()!.some((row) => row.id === id));
  await saved.close();
});

test('a database that is briefly unavailable is read again, without a report', async () => {
  await rm(file, { force: true });
  const failed: Error[] = [];
  let reads = 0;
  const query: Database['query'] = async (statement) => {
    if (reads++ === 0) throw new DatabaseUnavailable(new Error('timeout exceeded when trying to connect'));
    return database.database.query(statement);
  };
  const saved = open({ failed, opened: { ...database.database, query } });
  saved.save();
  await until(() => saved.read() !== null);
  await saved.close();
  expect([reads, failed]).toEqual([2, []]);
});

test('a folder that cannot be written is reported; the older copy stays until the next try succeeds', async () => {
  await save();
  await rm(`${file}.draft`, { force: true });
  await mkdir(`${file}.draft`);
  const failed: Error[] = [];
  const saved = open({ failed });
  saved.save();
  await until(() => failed.length > 0);
  expect(saved.read()).not.toBeNull();
  // The write is tried again, because the secret may have been replaced.
  await rm(file);
  await rm(`${file}.draft`, { recursive: true });
  await until(() => saved.read() !== null);
  await saved.close();
  removeSavedWebhooks(dataDir);
  expect(saved.read()).toBeNull();
});
