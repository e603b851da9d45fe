/** Leases deliveries, and waits for one when none can be claimed. */
import type { Exchange } from '../../base/http/exchange.ts';
import { readStoredHeaders } from '../../model/signatures/stored-headers.ts';
import { bytesOf, utf8Of } from '../../store/byte-text.ts';
import type { CellList } from '../../store/cells/cells-database.ts';
import { DatabaseUnavailable } from '../../store/connect/unavailable.ts';
import type { Directory } from '../../store/directory.ts';
import { uuidv7Time } from '../../store/ids.ts';
import { type Agent, isValidFor } from '../../store/queries/agents/agents.ts';
import type { Claimed } from '../../store/queries/claims/order.ts';
import { receiptText } from '../../store/queries/claims/receipts.ts';
import { settleDeliveries } from '../../store/queries/claims/settle.ts';
import { type CellClaimParts, claimInCell, claimInCells, nothing } from './claim-in-cells.ts';
import { knownReceipts, type ReceiptsAnswer, receiptsAnswer } from './settle.ts';
import type { ClaimWaiters } from './waiters.ts';

interface ClaimRequest {
  /** Deliveries. */
  max: number;
  leaseSeconds: number;
  /** How long to wait when no delivery can be claimed. */
  waitSeconds: number;
  /** Only deliveries of these webhooks; null: all. */
  webhookIds: readonly string[] | null;
  /** Receipts to acknowledge in the statement of the claim; only if `acknowledges` is true of the agent. */
  ack: readonly string[];
}

/** `deliveries`: JSON array. `settled`: null without `ack`. `gone`: the agent disconnected or cancelled, and its deliveries are released. */
type ClaimOutcome = { kind: 'claimed'; deliveries: string; settled: ReceiptsAnswer | null } | { kind: 'gone' };

/** Total body bytes in one answer. Bounds the memory of a claim in this process and in the agent. */
const CLAIM_BYTES_MAX = 16_777_216;

interface ClaimParts extends CellClaimParts {
  agents: Directory<Agent>;
  cells: Pick<CellList, 'all' | 'known'>;
  waiters: ClaimWaiters;
  /** The agent gets these deliveries. */
  onClaimed: (agentId: string, claimed: readonly Claimed[]) => void;
  /** DELIVERY_MAX_ATTEMPTS */
  attemptsMax: number;
}

export function createClaim(parts: ClaimParts) {
  const { database, agents, cells, waiters, attemptsMax } = parts;
  const oneAtATime = queues();
  async function claim(exchange: Exchange, agent: Agent, request: ClaimRequest): Promise<ClaimOutcome> {
    const untilMs = performance.now() + request.waitSeconds * 1000;
    const order = {
      agentId: agent.id,
      generation: agent.generation,
      address: exchange.client.address,
      max: request.max,
      leaseSeconds: request.leaseSeconds,
      webhookIds: request.webhookIds,
      bytesMax: CLAIM_BYTES_MAX,
      attemptsMax,
    };
    const claimNow = (current: Agent) => {
      // The credential may have been rotated during the wait, with an overlap.
      const isValid = isValidFor(current, agent.previousGeneration ?? agent.generation, Date.now());
      const terms = isValid ? { ...order, generation: current.generation } : order;
      if (isOneStatement(current)) return claimInCells(parts, terms, current);
      // Skip the claim of a client that has left: its leases would only be released, and the claims behind it wait for them.
      return oneAtATime(agent.id, () => (exchange.isGone ? nothing : claimInCells(parts, terms, current)));
    };
    const acks = knownReceipts(request.ack);
    const { commits } = waiters;
    let found = await (acks.length === 0
      ? claimNow(agent)
      : claimInCell(parts, { ...order, cell: HOME }, agent, acks).then((first) => ({
          ...first,
          commitsBefore: commits,
        })));
    const settled = request.ack.length === 0 ? null : receiptsAnswer(request.ack, found.settled);
    for (let inVain = false; found.claimed.length === 0 && !exchange.isGone && !exchange.draining; inVain = true) {
      const leftMs = untilMs - performance.now();
      if (leftMs <= 0) break;
      if (found.complete)
        await waiters.wait(agent.id, { timeoutMs: leftMs, commitsBefore: found.commitsBefore, inVain }, (wake) =>
          exchange.whenGone(wake),
        );
      exchange.waited();
      if (exchange.isGone) break;
      // The limit and the filters may have been changed during the wait.
      const claiming = claimNow((await agents.find(agent.id, Date.now())) ?? agent);
      const again = await (settled === null ? claiming : claiming.catch(inOutage(null)));
      if (again === null) break;
      found = again;
    }
    const { claimed } = found;
    if (exchange.isGone) {
      if (claimed.length > 0) await settleDeliveries(database, agent.id, claimed.map(receiptOf), { kind: 'release' });
      return { kind: 'gone' };
    }
    if (claimed.length > 0) parts.onClaimed(agent.id, claimed);
    return { kind: 'claimed', deliveries: JSON.stringify(claimed.map(deliveryOf)), settled };
  }
  /** Whether the claims of an agent can acknowledge: with several cells a claim takes several statements. */
  const acknowledges = (agent: Agent) => cells.known && cells.all().length === 1 && isOneStatement(agent);
  return { claim, acknowledges };
}

const HOME = 0;

/** Whether a claim of the agent in one cell is one statement. */
function isOneStatement({ maxLeased, filtered }: Agent): boolean {
  return maxLeased === null && !filtered;
}

/**
 * Returns `instead` during an outage. For a claim that has settled receipts: it is answered with no deliveries, because the agent must get
 * their outcome. If the outage lasts, the next claim reports it.
 */
export function inOutage<T>(instead: T): (error: unknown) => T {
  return (error) => {
    if (error instanceof DatabaseUnavailable) return instead;
    throw error;
  };
}

/**
 * Runs the claims of each agent one after another. Claims of an agent with `max_leased` wait for its lock: claims that run at once would take
 * every connection of the pool. Claims of an agent with filters would all judge the same deliveries.
 */
function queues() {
  const last = new Map<string, Promise<unknown>>();
  return async function oneAtATime<T>(agentId: string, work: () => T | Promise<T>): Promise<T> {
    const turn = (last.get(agentId) ?? Promise.resolve()).then(work, work);
    last.set(agentId, turn);
    try {
      return await turn;
    } finally {
      if (last.get(agentId) === turn) last.delete(agentId);
    }
  };
}

function receiptOf({ id, lease }: Claimed) {
  return { deliveryId: id, lease };
}

/** The delivery as in the API. */
function deliveryOf(claimed: Claimed): object {
  const body = utf8Of(claimed.body);
  const event = {
    id: claimed.eventId,
    webhook_id: claimed.webhookId,
    webhook_name: claimed.webhookName,
    received_at: uuidv7Time(claimed.eventId),
    event_type: claimed.eventType,
    content_type: claimed.contentType,
    headers: readStoredHeaders(utf8Of(claimed.headers) ?? bytesOf(claimed.headers).toString('utf8')),
    ...(body === null ? { body_base64: bytesOf(claimed.body).toString('base64') } : { body }),
  };
  return {
    id: claimed.id,
    receipt: receiptText(receiptOf(claimed)),
    attempt: claimed.attempt,
    leased_until: claimed.leasedUntil,
    event,
  };
}
