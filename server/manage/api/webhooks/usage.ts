/** Usage of webhooks, read at most every few seconds by a process: the list of webhooks refreshes itself, and the numbers grow slowly. */
import type { z } from 'zod';
import type { usageSchema } from '../../../model/webhook-usage.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { keptOfManyWebhooks } from '../../../store/many-webhooks.ts';
import { readLargestWebhooks, readTableBytes, readWebhookUsage } from '../../../store/queries/webhooks/usage.ts';

type UsageOutput = z.output<typeof usageSchema>;

const VALID_MS = 10_000;
/** With many webhooks: which of them have most bytes. */
const LARGEST_VALID_MS = 600_000;
/** Lists that are kept; then all are forgotten. */
const LISTS_MAX = 50;

export class Usage {
  readonly #database: Database;
  readonly #retentionDays: number;
  readonly #largest: () => Promise<string[]>;
  readonly #kept = new Map<string, { atMs: number; value: Promise<UsageOutput> }>();

  constructor(database: Database, retentionDays: number) {
    this.#database = database;
    this.#retentionDays = retentionDays;
    this.#largest = keptOfManyWebhooks(database, LARGEST_VALID_MS, () =>
      readLargestWebhooks(database, { retentionDays, nowMs: Date.now() }),
    );
  }

  /** Usage of these webhooks (null: of all). Calls share a read; a failed read is not kept. */
  read(ids: readonly string[] | null): Promise<UsageOutput> {
    const key = ids?.join() ?? '';
    const known = this.#kept.get(key);
    if (known !== undefined && performance.now() - known.atMs < VALID_MS) return known.value;
    if (this.#kept.size >= LISTS_MAX) this.#kept.clear();
    const value = this.#readNow(ids);
    this.#kept.set(key, { atMs: performance.now(), value });
    value.catch(() => this.#kept.delete(key));
    return value;
  }

  async #readNow(ids: readonly string[] | null): Promise<UsageOutput> {
    const days = { retentionDays: this.#retentionDays, nowMs: Date.now() };
    const [items, tables] = await Promise.all([
      readWebhookUsage(this.#database, ids ?? (await this.#largest()), days),
      readTableBytes(this.#database),
    ]);
    return { items, tables };
  }
}
