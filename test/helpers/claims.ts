/** Orders of claims, for tests that claim past the API. */
import { randomUUID } from 'node:crypto';
import { ClaimMarks } from '../../server/deliver/claims/marks.ts';
import type { ClaimOrder } from '../../server/store/queries/claims/order.ts';

/** The first claim of an agent of several webhooks, at home, of today's events. */
export function orderOf(agentId: string, order: Partial<ClaimOrder> = {}): ClaimOrder {
  return {
    cell: 0,
    agentId,
    generation: 1,
    isLimited: false,
    isOrdered: false,
    max: 10,
    leaseSeconds: 60,
    address: '192.0.2.1',
    webhookIds: null,
    bytesMax: 1_000_000,
    attemptsMax: 10,
    onlyWebhookId: null,
    hasManyWebhooks: false,
    ...new ClaimMarks().start(randomUUID(), 0),
    ...order,
  };
}
