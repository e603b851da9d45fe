/** A clock of Weir and Postgres that passes midnight (UTC) under load, and events of days before, which retention removes. */
import { execFileSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { DAY_MS, HOUR_MS } from '../../../../server/base/time/durations.ts';
import { uuidText, uuidv7 } from '../../../../server/store/ids.ts';
import { createDays } from '../../../../server/store/retention/partitions.ts';
import { hashOf } from '../clients/senders.ts';
import type { World } from './world.ts';

/** RETENTION_DAYS of the run. */
export const RETENTION_DAYS = 2;
/** Ages of the events at midnight: of a day that ends to be kept, older than the retention of `w6`, and inside of every retention. */
const AGES_MS = [2 * DAY_MS + 5 * HOUR_MS, 36 * HOUR_MS, 12 * HOUR_MS];
const EVENTS_OF_AGE = 20;

/** @param offsetMs of the clock, in whole seconds */
export function clockEnvironment(offsetMs: number): Record<string, string> {
  if (offsetMs === 0) return {};
  const shell = ['-f', '+0', 'sh', '-c', 'echo $LD_PRELOAD'];
  return {
    LD_PRELOAD: execFileSync('faketime', shell, { encoding: 'utf8' }).trim(),
    FAKETIME: `${offsetMs < 0 ? '' : '+'}${offsetMs / 1_000}s`,
    DONT_FAKE_MONOTONIC: '1',
    NO_FAKE_STAT: '1',
  };
}

/** A clock for which midnight is in `inMs`. */
export function clockBeforeMidnight(inMs: number): { offsetMs: number; midnightAt: number } {
  const midnightAt = Math.ceil((Date.now() + inMs) / DAY_MS) * DAY_MS;
  return { offsetMs: Math.floor((midnightAt - inMs - Date.now()) / 1_000) * 1_000, midnightAt };
}

/** Environments whose programs load several libraries first. */
export function joined(...environments: (Record<string, string> | undefined)[]): Record<string, string> {
  const libraries = environments.flatMap((each) => each?.LD_PRELOAD ?? []);
  return { ...Object.assign({}, ...environments), ...(libraries.length > 0 && { LD_PRELOAD: libraries.join(':') }) };
}

/** Stores events at home as of earlier days, with the responses that their senders got. */
export async function storeOldEvents({ history, servers, webhooks }: World): Promise<void> {
  const { database } = servers[0]!;
  const times = AGES_MS.map((age) => history.midnightAt - age);
  await createDays(database, times);
  for (const { name, id: webhookId, more = {} } of webhooks.filter(({ name }) => ['w1', 'w2', 'w6'].includes(name)))
    for (let number = 0; number < EVENTS_OF_AGE * times.length; number++) {
      const receivedAt = times[Math.floor(number / EVENTS_OF_AGE)]! + number;
      const [id, marker] = [uuidText(uuidv7(receivedAt, randomBytes(16))), randomUUID()];
      const body = JSON.stringify({ mark: `old-${name}-${number}`, passes: 1 });
      await database.query({
        text: `insert into events (id, webhook_id, received_at, source_ip, headers, content_type, body, bytes)
          values ($1, $2, $3, '127.0.0.1', $4, 'application/json', $5, $6)`,
        values: [
          id,
          webhookId,
          new Date(receivedAt).toISOString(),
          Buffer.from(`x-marker: ${marker}`),
          Buffer.from(body),
          body.length,
        ],
      });
      const lastDay = (Math.floor(receivedAt / DAY_MS) + 1 + RETENTION_DAYS) * DAY_MS;
      const ownDays = 'retention_days' in more ? receivedAt + Number(more.retention_days) * DAY_MS : Infinity;
      history.requests.push({
        webhook: name,
        key: `old-${number}`,
        marker,
        forged: false,
        batch: false,
        parts: [{ mark: `old-${name}-${number}`, hash: hashOf(body), passes: true }],
        sentAt: receivedAt - history.offsetMs,
        answeredAt: receivedAt - history.offsetMs,
        status: 202,
        ids: [id],
        expiresAt: Math.min(lastDay, ownDays),
      });
    }
}
