/**
 * The requests about deliveries. Acks, nacks and extensions are sent in batches. The next claim carries the acks that wait, which saves a
 * request. Acks that no claim carries within GROUP_MS, nacks and extensions have requests of their own; the next batch collects while a
 * request is in flight.
 */
import { type ClaimedDelivery, isClaimedDelivery, type Settlement, type Verdict } from './delivery.ts';
import type { AgentSession } from './session.ts';

const PATH = 'api/v1/agent/deliveries';

/** Maximum receipts in one request, as in the API. */
const RECEIPTS_MAX = 1_000;

/** How long a verdict waits for a claim that carries it, and for other verdicts. A longer wait would repeat more work after a crash. */
const GROUP_MS = 5;

/** Maximum time that acknowledgements wait for the answer of a claim, so that the next claim can carry them. */
const KEEP_MS_MAX = 100;

/** Receipts whose database does not answer are sent again after this time. */
const AWAY_MS = 1_000;

/** `stopped`: the outcome is unknown. */
export type SettlementOutcome = Settlement | 'stopped';

interface ClaimRequest {
  max: number;
  lease_seconds: number;
  /** How long the server waits for a delivery when none is ready. */
  wait_seconds: number;
  webhook_ids: readonly string[] | undefined;
}

export interface Claim {
  max: number;
  startMs: number;
  /** The claim carried acknowledgements, so the server did not wait for deliveries: handlers wait for the outcome. */
  withAcks: boolean;
  /** Empty when the signal ended the claim: the server releases deliveries that it claimed for a disconnected client. */
  deliveries: Promise<ClaimedDelivery[]>;
}

/** The requests of one run. Outcomes reject with WeirError when the API refuses the call permanently. */
export class DeliveryApi {
  readonly #session: AgentSession;
  readonly #acks: Lane;
  readonly #nacks: Lane;
  readonly #extensions: Lane;

  /** @param signal ends every request except claims; outcomes are then `stopped` */
  constructor(session: AgentSession, signal: AbortSignal) {
    const lane = (name: string) =>
      new Lane((body) => session.call({ path: `${PATH}/${name}`, body, understand: settledOf }, signal));
    this.#session = session;
    this.#acks = lane('ack');
    this.#nacks = lane('nack');
    this.#extensions = lane('extend');
  }

  /** Sends a claim with the acknowledgements that wait to be sent. Nacks are few, and have a request of their own. */
  claim(request: ClaimRequest, signal: AbortSignal): Claim {
    const acks = this.#acks.take();
    const deliveries = this.#claim(request, acks, signal);
    // The caller awaits them later, after work on earlier deliveries has begun.
    deliveries.catch(() => {});
    return { max: request.max, startMs: performance.now(), withAcks: acks !== null, deliveries };
  }

  async #claim(request: ClaimRequest, acks: Entry[] | null, signal: AbortSignal): Promise<ClaimedDelivery[]> {
    const waitSeconds = acks === null ? request.wait_seconds : 0;
    const body = { ...request, wait_seconds: waitSeconds, ack: acks?.map(({ receipt }) => receipt) };
    const call = { path: `${PATH}/claim`, body, waitSeconds, understand: claimAnswer };
    let answer: ClaimAnswer | null = null;
    try {
      answer = await this.#session.call(call, signal);
      return answer?.deliveries ?? [];
    } finally {
      // Without an answer it is unknown whether the server got the acknowledgements: send them again.
      if (answer === null) this.#acks.put(acks ?? []);
      else this.#acks.answered(acks ?? [], answer.settled);
    }
  }

  /** True: acknowledgements wait for a claim that carries them, for KEEP_MS_MAX at most. */
  keepAcks(isKept: boolean): void {
    this.#acks.keptUntilMs = isKept ? performance.now() + KEEP_MS_MAX : 0;
  }

  settle(receipt: string, verdict: Verdict): Promise<SettlementOutcome> {
    if (verdict.kind === 'done') return this.#acks.add(receipt, {});
    if (verdict.kind === 'released') return this.#nacks.add(receipt, { release: true });
    return this.#nacks.add(receipt, { reason: verdict.reason, delay_seconds: verdict.delaySeconds });
  }

  /** Extends the lease to `seconds` from now. */
  extend(receipt: string, seconds: number): Promise<SettlementOutcome> {
    return this.#extensions.add(receipt, { lease_seconds: seconds });
  }
}

interface Entry {
  receipt: string;
  fields: object;
  resolve: (outcome: SettlementOutcome) => void;
  reject: (error: unknown) => void;
}

/** The requests to one path, one at a time. Entries with equal fields share a request. */
class Lane {
  readonly #call: (body: object) => Promise<ReceiptOutcome | null>;
  /** Entries by their fields as JSON, ordered by the first entry. */
  readonly #waiting = new Map<string, Entry[]>();
  #busy = false;
  /** Nothing is sent before this time, as performance.now(). */
  keptUntilMs = 0;

  constructor(call: (body: object) => Promise<ReceiptOutcome | null>) {
    this.#call = call;
  }

  add(receipt: string, fields: object): Promise<SettlementOutcome> {
    return new Promise((resolve, reject) => this.put([{ receipt, fields, resolve, reject }]));
  }

  put(entries: readonly Entry[]): void {
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

  /** Takes entries with equal fields, at most RECEIPTS_MAX; null: none waits. */
  take(): Entry[] | null {
    for (const [key, entries] of this.#waiting) {
      const taken = entries.splice(0, RECEIPTS_MAX);
      if (entries.length === 0) this.#waiting.delete(key);
      return taken;
    }
    return null;
  }

  /** Receipts of a database that does not answer are sent again later, so that they do not delay the others. */
  answered(entries: readonly Entry[], { done, away }: ReceiptOutcome): void {
    const again = entries.filter(({ receipt }) => away.has(receipt));
    for (const { receipt, resolve } of entries) if (!away.has(receipt)) resolve(done.has(receipt) ? 'done' : 'gone');
    if (again.length > 0) setTimeout(() => this.put(again), AWAY_MS);
  }

  async #run(): Promise<void> {
    if (performance.now() < this.keptUntilMs && this.#waiting.size > 0)
      return void setTimeout(() => void this.#run(), GROUP_MS);
    for (let next = this.take(); next !== null; next = this.take()) await this.#send(next);
    this.#busy = false;
  }

  async #send(entries: readonly Entry[]): Promise<void> {
    try {
      const settled = await this.#call({ receipts: entries.map(({ receipt }) => receipt), ...entries[0]!.fields });
      if (settled !== null) return this.answered(entries, settled);
      for (const { resolve } of entries) resolve('stopped');
    } catch (error) {
      for (const { reject } of entries) reject(error);
    }
  }
}

/** Outcome of receipts. The lease of a receipt in neither set is lost. */
interface ReceiptOutcome {
  done: ReadonlySet<string>;
  /** Their database does not answer now. */
  away: ReadonlySet<string>;
}

interface ClaimAnswer {
  deliveries: ClaimedDelivery[];
  /** Outcome of the receipts that were sent with the claim. */
  settled: ReceiptOutcome;
}

/** Undefined: not a document of the API. */
function settledOf({ done, away = [] }: { done?: unknown; away?: unknown }): ReceiptOutcome | undefined {
  return Array.isArray(done) && Array.isArray(away) ? { done: new Set(done), away: new Set(away) } : undefined;
}

/** Undefined: not a document of the API. */
function claimAnswer(document: { deliveries?: unknown; settled?: object }): ClaimAnswer | undefined {
  const { deliveries } = document;
  const settled = settledOf(document.settled ?? { done: [] });
  return settled !== undefined && Array.isArray(deliveries) && deliveries.every(isClaimedDelivery)
    ? { deliveries, settled }
    : undefined;
}
