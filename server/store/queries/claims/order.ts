/** What a claim asks for, and what it gets. */
import type { ByteText } from '../../sql.ts';

export interface ClaimOrder {
  /** The cell whose deliveries are claimed; 0: home. */
  cell: number;
  agentId: string;
  /**
   * The agent's generation when it authenticated: an agent rotated without an overlap or revoked while its claim waits gets no more
   * deliveries.
   */
  generation: number;
  /** Whether the agent has `max_leased`. If this is outdated, the claim finds nothing or takes a lock that it does not need. */
  isLimited: boolean;
  /**
   * A subscription of the agent has an `order_by`, as far as this process knows: what is held by another delivery of its key is not
   * claimed.
   */
  isOrdered: boolean;
  max: number;
  leaseSeconds: number;
  /** Client address of the claim, for the history of the deliveries. */
  address: string;
  /** Null: all webhooks that the agent is subscribed to or has replayed events of. */
  webhookIds: readonly string[] | null;
  /** Limit on the sum of all bodies; the first delivery is returned whatever its size. */
  bytesMax: number;
  /** A delivery that has used all attempts becomes a dead letter instead of being claimed again. */
  attemptsMax: number;
  /** Ignores deliveries that became claimable earlier; `-infinity`: ignores none. */
  claimableFrom: string;
  /** The round starts with the webhook after this id; null: with the first. */
  afterWebhookId: string | null;
  /** The only webhook of which the agent may have deliveries, as far as this process knows; null: it may have some of several. */
  onlyWebhookId: string | null;
  /** The agent may have deliveries of so many webhooks that a claim does not look at all of them, as far as this process knows. */
  hasManyWebhooks: boolean;
  /** When the events were probably received. Those of other days cost another statement. */
  days: Days;
}

/** Bounds of times of receipt, ISO 8601: `from` included, `to` not. */
export interface Days {
  from: string;
  to: string;
}

export interface Claimed {
  id: string;
  attempt: number;
  /** Number of this lease among all leases of the delivery. */
  lease: number;
  leasedUntil: string;
  /** When it became claimable, or the oldest delivery of the agent: of all of a claim, the least counts. Unix milliseconds. */
  sinceMs: number;
  /** Position in the round-robin order over webhooks. */
  place: number;
  /** A UUIDv7 of the time at which the event was received. */
  eventId: string;
  webhookId: string;
  webhookName: string;
  eventType: string | null;
  contentType: string | null;
  headers: ByteText;
  body: ByteText;
}

/** A delivery that the statement of a claim has changed. */
export type LeasedRow = Omit<Claimed, 'headers' | 'body'> & {
  /** Null: the event was not received in the days of the order, or does not exist any more. */
  headers: ByteText | null;
  body: ByteText | null;
  state: 'leased' | 'dead';
  /** Its last lease ended without an acknowledgement. */
  expired: boolean;
};
