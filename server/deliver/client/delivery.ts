/** What a handler sees: a claimed delivery, the event in it, and how it fails. Members have the names of the HTTP API. */
import { inspect } from 'node:util';

/** Headers of the sender's request, names in lower case. Signatures and credentials are never stored. */
export type EventHeaders = Readonly<Record<string, string>>;

interface EventFields {
  readonly id: string;
  readonly webhook_id: string;
  readonly webhook_name: string;
  /** ISO 8601, UTC. */
  readonly received_at: string;
  /** Null when the webhook has no `event_type_from`, or the request had none. */
  readonly event_type: string | null;
  readonly content_type: string | null;
  readonly headers: EventHeaders;
}

/** A delivery as the API returns it. */
export interface ClaimedDelivery {
  readonly id: string;
  /** Identifies this delivery and this attempt. */
  readonly receipt: string;
  /** Starts at 1. */
  readonly attempt: number;
  readonly leased_until: string;
  /** W3C trace context of this delivery; absent: Weir does not trace. */
  readonly traceparent?: string;
  readonly event: EventFields & {
    /** Present when the bytes are UTF-8 without NUL; otherwise body_base64. */
    readonly body?: string;
    readonly body_base64?: string;
  };
}

/** Checks that an element of a response has the required fields; other fields are passed on unchanged. */
export function isClaimedDelivery(value: unknown): value is ClaimedDelivery {
  if (typeof value !== 'object' || value === null) return false;
  const { id, receipt, event } = value as Partial<ClaimedDelivery>;
  return typeof id === 'string' && typeof receipt === 'string' && typeof event === 'object' && event !== null;
}

/** A stored webhook request. */
export interface DeliveredEvent extends EventFields {
  /** The body, byte for byte as the sender sent it. */
  readonly body: Buffer;
  text(): string;
  /**
   * The body as JSON, without a byte order mark before it. Throws SyntaxError when it is not JSON. The sender chose the content: check it
   * before use.
   */
  json(): unknown;
}

/** Inherited by events, so that the handler can post one to a worker thread, which gets its data. */
const methods: Pick<DeliveredEvent, 'text' | 'json'> & ThisType<DeliveredEvent> = {
  text() {
    return this.body.toString('utf8');
  },
  json() {
    return JSON.parse(this.text().replace(/^\ufeff/, ''));
  },
};

function deliveredEvent({ body: text, body_base64 = '', ...fields }: ClaimedDelivery['event']): DeliveredEvent {
  const body = text === undefined ? Buffer.from(body_base64, 'base64') : Buffer.from(text, 'utf8');
  return Object.assign(Object.create(methods), { ...fields, body });
}

/** `done`, or `gone`: the lease was lost before, so the delivery is delivered again. */
export type Settlement = 'done' | 'gone';

/**
 * What became of the work on a delivery. `failed` without `delaySeconds`: the server increases the delay with every attempt. `released`: the
 * work was not begun, so the attempt does not count.
 */
export type Verdict =
  | { kind: 'done' }
  | { kind: 'failed'; reason: string; delaySeconds: number | undefined }
  | { kind: 'released' };

/** The work of which a delivery is a part. */
export interface DeliveryWork {
  readonly signal: AbortSignal;
  settle: (verdict: Verdict) => Promise<Settlement>;
  extend: (seconds: number) => Promise<Settlement>;
}

/** One event on its way to this agent. Settle each delivery once: the first `ack` or `nack` counts, later ones return its outcome. */
export class Delivery {
  readonly id: string;
  /** Identifies this delivery and this attempt. */
  readonly receipt: string;
  /** Starts at 1. */
  readonly attempt: number;
  readonly event: DeliveredEvent;
  /** W3C trace context of this delivery, for spans; undefined: Weir does not trace. */
  readonly traceparent: string | undefined;
  readonly #claimed: ClaimedDelivery;
  readonly #work: DeliveryWork;

  constructor(claimed: ClaimedDelivery, work: DeliveryWork) {
    this.id = claimed.id;
    this.receipt = claimed.receipt;
    this.attempt = claimed.attempt;
    this.event = deliveredEvent(claimed.event);
    this.traceparent = claimed.traceparent;
    this.#claimed = claimed;
    this.#work = work;
  }

  /** Aborts when the work should stop: the lease was lost, the time to drain ended, or the agent was closed. */
  get signal(): AbortSignal {
    return this.#work.signal;
  }

  /** The work is done: the delivery is finished. Rejects with WeirError. */
  ack(): Promise<Settlement> {
    return this.#work.settle({ kind: 'done' });
  }

  /**
   * The work failed: the delivery is delivered again after `delaySeconds` (0 to 86,400; by default 5 seconds, doubled with each attempt),
   * or becomes a dead letter after the last attempt. Rejects with WeirError, and with RangeError for another delay.
   */
  async nack(reason: string, { delaySeconds }: { delaySeconds?: number } = {}): Promise<Settlement> {
    if (delaySeconds !== undefined && !(delaySeconds >= 0 && delaySeconds <= DELAY_SECONDS_MAX))
      throw new RangeError(`delaySeconds is ${delaySeconds}; allowed: 0 to ${DELAY_SECONDS_MAX}.`);
    return this.#work.settle({ kind: 'failed', reason: reasonOf(reason), delaySeconds });
  }

  /**
   * Extends the lease to `seconds` (5 to 3,600) from now. Leases are extended without this call while the event loop is free; call it
   * before work that blocks the loop for longer than a third of the lease. Rejects with WeirError.
   */
  extend(seconds: number): Promise<Settlement> {
    return this.#work.extend(seconds);
  }

  toJSON(): ClaimedDelivery {
    return this.#claimed;
  }
}

/** The longest delay before the next attempt that the API accepts, in seconds. */
export const DELAY_SECONDS_MAX = 86_400;

/**
 * Thrown by a handler: the delivery is attempted again after `delaySeconds`, which is limited to 0 to 86,400. Without a delay the server
 * doubles the wait with each attempt, as for every other error. A delay that is not a number counts as none, and the reason mentions it.
 */
export class Retry extends Error {
  override readonly name = 'Retry';
  readonly delaySeconds: number | undefined;

  constructor(reason: string, { delaySeconds }: { delaySeconds?: number } = {}) {
    const isUsable = delaySeconds === undefined || delaySeconds >= 0 || delaySeconds < 0;
    super(isUsable ? reason : `${reason} (delaySeconds is ${delaySeconds})`);
    this.delaySeconds =
      isUsable && delaySeconds !== undefined ? Math.min(Math.max(delaySeconds, 0), DELAY_SECONDS_MAX) : undefined;
  }
}

/** Thrown by handlers of this package: the work was not begun, so the delivery is released and the attempt does not count. */
export class NotBegun extends Error {}

/** The API accepts 500. */
const REASON_CHARACTERS_MAX = 400;

/** The reason of a failed delivery, from anything that a handler may throw. Truncated between characters, never inside one. */
export function reasonOf(error: unknown): string {
  const text = textOf(error);
  if (text.length <= REASON_CHARACTERS_MAX) return text;
  const cut = text.slice(0, REASON_CHARACTERS_MAX - 1);
  return `${/[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut}…`;
}

/** Never throws. The code of the cause says why a fetch failed. */
function textOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return String(error);
  const { message, name, cause } = error as { message?: unknown; name?: unknown; cause?: { code?: unknown } };
  if (typeof message !== 'string') return inspect(error, { breakLength: Number.POSITIVE_INFINITY });
  const code = cause?.code;
  return `${message || String(name)}${typeof code === 'string' ? `: ${code}` : ''}`;
}
