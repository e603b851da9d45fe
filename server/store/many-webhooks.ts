/** What is read of all webhooks: with many of them it takes seconds, and is kept for a while. */
import { keptWhenLarge, type Sized } from '../base/time/kept.ts';
import type { Database } from './connect/pool.ts';

const MANY_WEBHOOKS = 1_000;
/** A statement over the history of all webhooks takes 7 s with 22,000,000 rows, and 30 s on a busy machine that reads them from disk. */
export const ALL_WEBHOOKS_TIMEOUT_MS = 60_000;

/** Returns a function that reads as `read` does. With many webhooks what it read is kept for `ms`, see keptWhenLarge. */
export function keptOfManyWebhooks<T, Arguments extends unknown[]>(
  database: Pick<Database, 'query'>,
  ms: number,
  read: (...given: Arguments) => Promise<T>,
): (...given: Arguments) => Promise<T> {
  return keptWhenLarge(ms, (...given: Arguments) => sizedByWebhooks(database, read(...given)));
}

/** Resolves with the value, and with whether there are so many webhooks, deleted ones included, that it is to be kept. */
export async function sizedByWebhooks<T>({ query }: Pick<Database, 'query'>, reading: Promise<T>): Promise<Sized<T>> {
  const [value, isLarge] = await Promise.all([reading, hasManyWebhooks({ query })]);
  return { value, isLarge };
}

async function hasManyWebhooks({ query }: Pick<Database, 'query'>): Promise<boolean> {
  const [row] = await query<{ isMany: boolean }>({
    text: `select count(*) > ${MANY_WEBHOOKS} as "isMany" from (select from webhooks limit ${MANY_WEBHOOKS + 1}) w`,
  });
  return row!.isMany;
}
