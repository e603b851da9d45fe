/**
 * Samples duplicates, and requests that were refused for a reason other than their signature, for a webhook's list of requests. Samples
 * wait in memory while the database is away. ingest-counts.ts has the exact counts.
 */
import type { Exchange } from '../../base/http/exchange.ts';
import { MINUTE_MS } from '../../base/time/durations.ts';
import { uuidText, uuidv7 } from '../../store/ids.ts';
import type { RequestSample } from '../../store/queries/rejections/ring.ts';
import { WriteBehind } from '../../store/write-behind.ts';
import { randomSource } from './store.ts';

const EVERY_MS = 1_000;
/** Limits on the samples of a minute: of one webhook and reason, and of all webhooks. */
const REASON_MINUTE_MAX = 10;
const MINUTE_MAX = 600;
/** Samples that wait for the database. */
const WAITING_MAX = 5_000;

export class RequestSamples {
  readonly #rows: WriteBehind<RequestSample>;
  readonly #nextRandom = randomSource();
  readonly #taken = new Map<string, number>();
  #takenInMinute = 0;
  #minute = 0;

  constructor(write: (rows: readonly RequestSample[]) => Promise<void>) {
    this.#rows = new WriteBehind(
      (rows) => write([...rows.values()]),
      (sample) => sample,
      { everyMs: EVERY_MS },
    );
  }

  /** Samples an answered request, or skips it. Refused signatures are skipped: they are kept as rejections. @param nowMs Unix milliseconds */
  offer(exchange: Exchange, webhookId: string, nowMs: number): void {
    const { status, problemCode, isDuplicate } = exchange;
    const reason = isDuplicate ? 'duplicate' : problemCode;
    if (reason === null || reason.startsWith('signature_') || !this.#take(`${webhookId} ${reason}`, nowMs)) return;
    const id = uuidText(uuidv7(nowMs, this.#nextRandom()));
    const length = Number(exchange.header('content-length'));
    this.#rows.note(id, {
      id,
      webhookId,
      atMs: nowMs,
      status,
      reason,
      client: exchange.client.address,
      bytes: Number.isSafeInteger(length) ? length : null,
      eventId: isDuplicate ? exchange.eventId : null,
    });
  }

  close(): Promise<void> {
    return this.#rows.close();
  }

  #take(key: string, nowMs: number): boolean {
    const minute = Math.floor(nowMs / MINUTE_MS);
    if (minute !== this.#minute) {
      this.#minute = minute;
      this.#takenInMinute = 0;
      this.#taken.clear();
    }
    if (this.#takenInMinute >= MINUTE_MAX || this.#rows.size >= WAITING_MAX) return false;
    const taken = this.#taken.get(key) ?? 0;
    if (taken >= REASON_MINUTE_MAX) return false;
    this.#taken.set(key, taken + 1);
    this.#takenInMinute++;
    return true;
  }
}
