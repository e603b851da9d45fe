/** The model: what clients sent and what they were answered. Times are those of `Date.now()`. */

/** One event of a request: the mark at the start of its body, and the hash of the body. */
export interface Part {
  mark: string;
  hash: string;
  /** Value that the filter of an agent compares; null in a body that is not JSON. */
  passes: boolean | null;
}

export interface SentRequest {
  webhook: string;
  /** Value of its deduplication key: the same in each repetition. */
  key: string;
  /** Value of a header, stored with its events. */
  marker: string;
  forged: boolean;
  batch: boolean;
  parts: Part[];
  sentAt: number;
  /** Infinity: not yet. */
  answeredAt: number;
  /** Null: without a response. */
  status: number | null;
  /** Ids in the response; several for a batch. */
  ids: string[];
  /** When retention may remove its events, by the clock of Weir. */
  expiresAt: number;
}

export interface Lease {
  agent: string;
  delivery: string;
  receipt: string;
  /** Counts the leases of the delivery. */
  number: number;
  attempt: number;
  event: string;
  hash: string;
  marker: string | undefined;
  /** When its claim was sent. */
  sentAt: number;
  answeredAt: number;
  seconds: number;
  settlements: Settlement[];
}

export interface Settlement {
  how: 'ack' | 'nack' | 'extend';
  agent: string;
  receipts: string[];
  /** Seconds of the new lease. */
  seconds: number;
  sentAt: number;
  answeredAt: number;
  /** Receipts that the response confirms. */
  done: Set<string>;
}

/** A change that the nemesis made by the API. */
export interface Change {
  what: string;
  sentAt: number;
  answeredAt: number;
  /** Status of the last try; null: without a response. */
  status: number | null;
}

/** A job that replays events of a webhook to the agent that has no subscription. */
export interface ReplayJob extends Change {
  webhook: string;
  /** Bounds of `received_at`, by the clock of Weir. */
  fromMs: number;
  toMs: number;
  id: string | null;
  cancelled: boolean;
  /** Its last state; null: not finished. */
  state: string | null;
}

export interface Violation {
  invariant: string;
  text: string;
}

export class History {
  readonly beganAt = Date.now();
  readonly requests: SentRequest[] = [];
  readonly leases: Lease[] = [];
  readonly settlements: Settlement[] = [];
  /** Changes of the one subscription that comes and goes. */
  readonly subscriptions: (Change & { on: boolean })[] = [];
  readonly rotations: (Change & { agent: string })[] = [];
  /** Replays of dead deliveries; `undoneAt`: when the undo was sent. */
  readonly replays: (Change & { undoneAt: number })[] = [];
  readonly dismissals: Change[] = [];
  readonly jobs: ReplayJob[] = [];
  /** Backups that were restored into a database of their own, with what it had. */
  readonly backups: { sentAt: number; stored: Stored }[] = [];
  /** Deliveries that the client library passed to its handler. */
  readonly handled: { delivery: string; event: string; hash: string }[] = [];
  /** What was wrong during the run already. */
  /** When retention began that then ran to its end, by the clock of Weir. */
  readonly retentions: number[] = [];
  /** The clock of Weir and Postgres less that of the clients. */
  offsetMs = 0;
  /** A midnight of that clock, near the middle of the load. */
  midnightAt = 0;
  readonly observed: Violation[] = [];
  readonly lines: string[] = [];

  observe(invariant: string, text: string): void {
    this.observed.push({ invariant, text: text.slice(0, 600) });
    this.note(`VIOLATION ${invariant}: ${text.slice(0, 600)}`);
  }

  /** Adds a line to the log of the run. */
  note(text: string): void {
    this.lines.push(`${this.at(Date.now())} ${text}`);
    if (process.env.NEMESIS_LOG !== undefined) console.log(this.lines.at(-1));
  }

  /** Seconds since the start of the run, as text. */
  at(time: number): string {
    return ((time - this.beganAt) / 1_000).toFixed(2);
  }
}

/** What is stored after the run, over all cells. */
export interface Stored {
  events: StoredEvent[];
  deliveries: StoredDelivery[];
}

export interface StoredEvent {
  id: string;
  webhook_id: string;
  mark: string;
  hash: string;
  headers: string;
  receivedAtMs: number;
}

export interface StoredDelivery {
  id: string;
  webhook_id: string;
  agent_id: string;
  event_id: string;
  state: string;
  attempts: number;
  leases: number;
  history: string;
}

/** A webhook or an agent of the run, with what the API answered. */
export interface Webhook {
  name: string;
  scheme: 'sha256' | 'github' | 'stripe' | 'standard-webhooks' | 'basic';
  /** Its deduplication keys are values of this header. */
  keyHeader?: 'x-key' | 'webhook-id';
  batches?: true;
  /** In the cell, when there is one. */
  inCell?: true;
  /** More fields of the request that creates it. */
  more?: object;
  id: string;
  /** The one that senders use is the last. */
  secrets: string[];
}

export interface Agent {
  name: string;
  /** Names of its webhooks. */
  webhooks: readonly string[];
  clients: number;
  filter?: string;
  /** The filter of its subscriptions is changed. */
  filterChanges?: true;
  maxLeased?: number;
  /** Share of claims that are rejected. */
  nacks?: number;
  role?: 'library' | 'joins and leaves' | 'gets replays';
  id: string;
  credential: string;
  /** A rotation had no answer: the credential is not known. */
  lost: boolean;
}
