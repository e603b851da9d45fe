/**
 * Counts the requests of each webhook in memory, with the changes that they make to its state, and writes them to the database:
 *
 *     up to VALUES_MAX webhooks     every few seconds, in one statement
 *     more webhooks                 after the end of each minute, so that a webhook has one write a minute
 *     SPARSE_FROM webhooks or more  every five minutes and without rows of minutes, except for webhooks that refused requests
 *
 * The request path adds to one object, which its cached webhook refers to: 1 ns of the 27.8 us that a request costs in the event loop.
 * Webhooks without requests are skipped: visiting 100,000 of them stopped the loop for 120 ms every five seconds. A process that is killed
 * loses the counts since its last write.
 */
import { MINUTE_MS } from '../../base/time/durations.ts';
import { type HistoryCounts, historyColumns, noCounts } from '../../model/history.ts';
import type { HistoryRow, StateChange } from '../../store/queries/webhooks/history.ts';
import { everyMsOf, SPARSE_FROM, VALUES_MAX, WriteBehind } from '../../store/write-behind.ts';

/** The counts and the state of a webhook that its requests change. */
type WebhookCounts = HistoryCounts & StateChange;

/** Maximum rows that wait for the database. Above it requests are still counted, but in a later minute. */
export const COUNTED_ROWS_MAX = 100_000;
/** Webhooks collected in one turn of the event loop: 100,000 in one turn delayed requests by 112 ms. */
const TURN_WEBHOOKS = 2_000;

/** The counts of a webhook since their last collection. */
export class WebhookCounter {
  readonly webhookId: string;
  readonly #counts: WebhookCounts;
  readonly #touched: WebhookCounter[];
  #isTouched = false;

  /** @param touched list of the counters with requests, to which this counter adds itself */
  constructor(webhookId: string, secretId: string | null, touched: WebhookCounter[]) {
    this.webhookId = webhookId;
    this.#counts = { ...noCounts(), lastEventMs: 0, secretId, uses: 0, previousUses: 0 };
    this.#touched = touched;
  }

  get counts(): Readonly<WebhookCounts> {
    return this.#counts;
  }

  /** Returns the counts. The caller adds to them in the same turn: a later collection resets them. */
  touch(): WebhookCounts {
    if (!this.#isTouched) {
      this.#isTouched = true;
      this.#touched.push(this);
    }
    return this.#counts;
  }

  /** Sets the secret that requests use from now on. */
  rotateTo(secretId: string | null): void {
    rotateTo(this.#counts, secretId);
  }

  reset(): void {
    for (const name of historyColumns) this.#counts[name] = 0;
    this.#counts.lastEventMs = this.#counts.uses = this.#counts.previousUses = 0;
    this.#isTouched = false;
  }
}

type CountedRow = WebhookCounts & Pick<HistoryRow, 'webhookId' | 'minuteMs'> & { withoutMinute: boolean };
/** Counts of requests that were refused. */
const refusedColumns = historyColumns.filter(
  (name) => !['accepted', 'duplicates', 'bytes', 'by_previous'].includes(name),
);

export class IngestCounts {
  readonly #nowMs: () => number;
  readonly #isUrgent: boolean;
  readonly #counters = new Map<string, WebhookCounter>();
  readonly #touched: WebhookCounter[] = [];
  /** By minute and webhook. */
  readonly #rows: WriteBehind<CountedRow>;
  /** Number of webhooks in the last complete collection. */
  #active = 0;
  /** The collection in progress, over several turns of the event loop; null: none. */
  #turns: Iterator<void> | null = null;
  /** The minute of the last collection, Unix milliseconds. */
  #minuteMs: number;

  /** @param options.nowMs Unix milliseconds @param options.isUrgent counts of many webhooks are written as often as those of few */
  constructor(
    write: (rows: readonly HistoryRow[]) => Promise<void>,
    { nowMs = Date.now, isUrgent = false }: { nowMs?: () => number; isUrgent?: boolean } = {},
  ) {
    this.#nowMs = nowMs;
    this.#isUrgent = isUrgent;
    this.#minuteMs = this.#minuteOfNow();
    const collect = () => this.#collectInTime();
    // Rows of many webhooks are written when they are collected.
    this.#rows = new WriteBehind((rows) => write([...rows.values()]), sumOf, { isUrgent: true, collect });
  }

  /** Returns the counter of a webhook, always the same object. @param secretId its current secret */
  of(webhookId: string, secretId: string | null = null): WebhookCounter {
    let counter = this.#counters.get(webhookId);
    if (counter === undefined) {
      counter = new WebhookCounter(webhookId, secretId, this.#touched);
      this.#counters.set(webhookId, counter);
    }
    counter.rotateTo(secretId);
    return counter;
  }

  /** Waits for a write in progress, then writes the counts. After an error the counts keep their minute and wait for the next write. */
  flush(): Promise<void> {
    this.#collect(this.#minuteOfNow());
    return this.#rows.flush();
  }

  close(): Promise<void> {
    this.#collect(this.#minuteOfNow());
    return this.#rows.close();
  }

  /**
   * With many webhooks, counts are collected once a span (one or five minutes), in the first seconds of the next span. Counts with refused
   * requests are collected each minute.
   */
  #collectInTime(): void {
    const [beforeMs, minuteMs] = [this.#minuteMs, this.#minuteOfNow()];
    this.#minuteMs = minuteMs;
    if (this.#webhooks <= VALUES_MAX || this.#isUrgent) return this.#collect(minuteMs);
    if (minuteMs === beforeMs) return;
    const spanMs = everyMsOf(this.#webhooks);
    this.#finishTurns();
    this.#turns = this.#collectParts(beforeMs, Math.floor(minuteMs / spanMs) === Math.floor(beforeMs / spanMs));
    this.#turn();
  }

  #collect(minuteMs: number): void {
    this.#finishTurns();
    this.#turns = this.#collectParts(minuteMs, false);
    this.#finishTurns();
  }

  #turn(): void {
    if (this.#turns?.next().done === false) setImmediate(() => this.#turn());
    else this.#turns = null;
  }

  #finishTurns(): void {
    while (this.#turns?.next().done === false);
    this.#turns = null;
  }

  /**
   * Moves the counts into the rows of a minute, TURN_WEBHOOKS at each step.
   * @param refusedOnly collects only webhooks that refused requests since the last collection
   */
  *#collectParts(minuteMs: number, refusedOnly: boolean): Generator<void> {
    const isSparse = this.#webhooks >= SPARSE_FROM && !this.#isUrgent;
    const touched = this.#touched.splice(0);
    if (!refusedOnly) this.#active = touched.length;
    for (const [i, counter] of touched.entries()) {
      if (i % TURN_WEBHOOKS === TURN_WEBHOOKS - 1) yield;
      const { webhookId, counts } = counter;
      const refused = refusedColumns.some((name) => counts[name] > 0);
      if ((refusedOnly && !refused) || this.#rows.size >= COUNTED_ROWS_MAX) {
        this.#touched.push(counter);
        continue;
      }
      this.#rows.note(`${minuteMs} ${webhookId}`, {
        webhookId,
        minuteMs,
        withoutMinute: isSparse && !refused,
        ...counts,
      });
      counter.reset();
    }
  }

  /** Number of webhooks in use. When a load begins, there are more than in the last collection. */
  get #webhooks(): number {
    return Math.max(this.#active, this.#touched.length);
  }

  #minuteOfNow(): number {
    return Math.floor(this.#nowMs() / MINUTE_MS) * MINUTE_MS;
  }
}

/** Makes this secret the current one. The uses of the former secret become uses of the previous secret. */
function rotateTo(counts: StateChange, secretId: string | null): void {
  if (counts.secretId === secretId) return;
  counts.previousUses += counts.uses;
  counts.uses = 0;
  counts.secretId = secretId;
}

/** Adds the counts of a later row of the same webhook and minute. */
function sumOf(row: CountedRow, later: CountedRow): CountedRow {
  for (const name of historyColumns) row[name] += later[name];
  row.withoutMinute &&= later.withoutMinute;
  rotateTo(row, later.secretId);
  row.lastEventMs = Math.max(row.lastEventMs, later.lastEventMs);
  row.uses += later.uses;
  row.previousUses += later.previousUses;
  return row;
}
