/**
 * Acks and nacks deliveries in batches: the next claim takes the acks that wait along, which saves a request. What no claim takes within
 * GROUP_MS is sent alone, and the next batch collects while that request is in flight.
 */
import { type AgentApi, AWAY_PAUSE_MS, type SettledReceipts, type SettlePath } from './api.ts';
import type { Settlement } from './delivery.ts';

/** Maximum receipts in one request, as in the API. */
const RECEIPTS_MAX = 1_000;

/** How long a verdict waits for a claim that takes it along, and for others. Longer would delay an acknowledgement, which is then repeated work after a crash. */
const GROUP_MS = 5;

/** Longest wait of acknowledgements for the answer of a claim, with the next of which they are sent. */
const KEEP_MS_MAX = 100;

/** `stopped`: the outcome is unknown. */
export type Outcome = Settlement | 'stopped';

/**
 * What became of the work on a delivery. `failed` without `delaySeconds`: the server increases the delay with every attempt. `released`: the
 * work was not begun, so the attempt does not count.
 */
export type Verdict =
  | { kind: 'done' }
  | { kind: 'failed'; reason: string; delaySeconds: number | undefined }
  | { kind: 'released' };

export class Settler {
  readonly #acks: Lane;
  readonly #nacks: Lane;

  /** @param signal ends every request; outcomes are then `stopped` */
  constructor(api: AgentApi, signal: AbortSignal) {
    this.#acks = new Lane(api, 'ack', signal);
    this.#nacks = new Lane(api, 'nack', signal);
  }

  /** Verdicts with equal fields share a request. Rejects with WeirError when the API refuses the call permanently. */
  settle(receipt: string, verdict: Verdict): Promise<Outcome> {
    if (verdict.kind === 'done') return this.#acks.add(receipt, {});
    if (verdict.kind === 'released') return this.#nacks.add(receipt, { release: true });
    const { reason, delaySeconds } = verdict;
    return this.#nacks.add(receipt, { reason, ...(delaySeconds !== undefined && { delay_seconds: delaySeconds }) });
  }

  /** True: acknowledgements wait for a claim that takes them along, for KEEP_MS_MAX at most. */
  keepAcks(isKept: boolean): void {
    this.#acks.keptUntilMs = isKept ? performance.now() + KEEP_MS_MAX : 0;
  }

  /** Takes the acknowledgements that wait to be sent; null: none. Nacks are few, and have a request of their own. */
  takeAcks(): TakenAcks | null {
    const acks = this.#acks.take();
    if (acks === null) return null;
    return {
      receipts: acks.map(({ receipt }) => receipt),
      settled: (settled) => this.#acks.answered(acks, settled),
      returned: () => this.#acks.putBack(acks),
    };
  }
}

/** Acknowledgements that a claim takes along. One of the two functions is called once. */
export interface TakenAcks {
  receipts: readonly string[];
  settled: (settled: SettledReceipts) => void;
  /** It is unknown whether the claim was received: they are sent again. */
  returned: () => void;
}

interface Entry {
  receipt: string;
  fields: object;
  resolve: (outcome: Outcome) => void;
  reject: (error: unknown) => void;
}

/** Sends one request at a time. */
class Lane {
  readonly #api: AgentApi;
  readonly #path: SettlePath;
  readonly #signal: AbortSignal;
  /** Entries by their fields as JSON, ordered by the first entry. */
  readonly #waiting = new Map<string, Entry[]>();
  #busy = false;
  /** Nothing is sent before this time, as performance.now(). */
  keptUntilMs = 0;

  constructor(api: AgentApi, path: SettlePath, signal: AbortSignal) {
    this.#api = api;
    this.#path = path;
    this.#signal = signal;
  }

  add(receipt: string, fields: object): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      this.putBack([{ receipt, fields, resolve, reject }]);
    });
  }

  putBack(entries: readonly Entry[]): void {
    for (const entry of entries) {
      const key = JSON.stringify(entry.fields);
      const queued = this.#waiting.get(key);
      if (queued === undefined) this.#waiting.set(key, [entry]);
      else queued.push(entry);
    }
    if (this.#busy || this.#waiting.size === 0) return;
    this.#busy = true;
    setTimeout(() => void this.#run(), GROUP_MS);
  }

  async #run(): Promise<void> {
    if (performance.now() < this.keptUntilMs && this.#waiting.size > 0)
      return void setTimeout(() => void this.#run(), GROUP_MS);
    for (let next = this.take(); next !== null; next = this.take()) await this.#send(next);
    this.#busy = false;
  }

  /** Entries with equal fields, at most RECEIPTS_MAX; null: none waits. */
  take(): Entry[] | null {
    for (const [key, entries] of this.#waiting) {
      const taken = entries.splice(0, RECEIPTS_MAX);
      if (entries.length === 0) this.#waiting.delete(key);
      return taken;
    }
    return null;
  }

  /** Those of a database that does not answer are sent again, so that they do not hold up the others. */
  answered(entries: readonly Entry[], { done, away }: SettledReceipts): void {
    const again = entries.filter(({ receipt }) => away.has(receipt));
    for (const { receipt, resolve } of entries) if (!away.has(receipt)) resolve(done.has(receipt) ? 'done' : 'gone');
    if (again.length > 0) setTimeout(() => this.putBack(again), AWAY_PAUSE_MS);
  }

  async #send(entries: readonly Entry[]): Promise<void> {
    const receipts = entries.map(({ receipt }) => receipt);
    try {
      const answer = await this.#api.settle(this.#path, receipts, entries[0]!.fields, this.#signal);
      if (answer.kind === 'settled') return this.answered(entries, answer);
      for (const { resolve } of entries) resolve('stopped');
    } catch (error) {
      for (const { reject } of entries) reject(error);
    }
  }
}
