/** What is read of all webhooks: in one statement, or in a statement for each slice of their ids where they are many. */
import type { Database } from './pool.ts';

const MANY_WEBHOOKS = 1_000;
/** One of 32 of 100,000 webhooks with 4,000,000 hours of history takes about 100 ms. */
const SLICES = 32;

/** Part of the ids: from the first one, and up to the one behind the last. */
interface Slice {
  from: string;
  to: string;
}

interface Slices {
  slices: readonly Slice[];
  /** See hasManyWebhooks. */
  isLarge: boolean;
}

/** Whether there are so many webhooks, deleted ones included, that what is read of all of them is kept for a while. */
export async function hasManyWebhooks({ query }: Pick<Database, 'query'>): Promise<boolean> {
  const [row] = await query<{ isMany: boolean }>({
    text: `select count(*) > ${MANY_WEBHOOKS} as "isMany" from (select from webhooks limit ${MANY_WEBHOOKS + 1}) w`,
  });
  return row!.isMany;
}

const idAt = (slice: number) =>
  `${((slice * 256) / SLICES).toString(16).padStart(2, '0')}000000-0000-0000-0000-000000000000`;
const END = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** Divides the ids of all webhooks, evenly as far as they are random. The last slice ends before the last possible id, which none has. */
export async function slicesOfWebhooks({ query }: Pick<Database, 'query'>): Promise<Slices> {
  const isLarge = await hasManyWebhooks({ query });
  if (!isLarge) return { slices: [{ from: idAt(0), to: END }], isLarge };
  const slices = Array.from({ length: SLICES }, (_, slice) => ({
    from: idAt(slice),
    to: slice === SLICES - 1 ? END : idAt(slice + 1),
  }));
  return { slices, isLarge };
}
