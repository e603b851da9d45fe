import { retryDeadlock } from '../deadlock.ts';
import { uuidv7Milliseconds } from '../ids.ts';
import type { Database } from '../pool.ts';
import { type Receipt, receiptText } from '../receipt.ts';

/** What becomes of a lease. Each is idempotent: the same receipt again changes nothing and is done. */
export type Settlement =
  | { kind: 'ack' }
  /** `delaySeconds` null: exponential back-off with jitter by the number of attempts. */
  | { kind: 'nack'; delaySeconds: number | null; reason: string | null; attemptsMax: number }
  | { kind: 'extend'; leaseSeconds: number };

/** `done`: receipts, as texts. `changed`: the new state of each delivery that was not settled before. */
export interface Settled {
  done: Set<string>;
  changed: ('pending' | 'leased' | 'done' | 'dead')[];
}

/** First and longest wait after a nack without a delay of its own. */
const NACK_FIRST_SECONDS = 5;
const NACK_MAX_SECONDS = 3_600;

/**
 * Settles leases of one agent in one statement; returns the receipts that are done. The others' leases were lost:
 * claimed again, replayed, or never this agent's.
 */
export async function settleDeliveries(
  database: Database,
  agentId: string,
  receipts: readonly Receipt[],
  settlement: Settlement,
): Promise<Settled> {
  const { name, set, already, values } = statementOf(settlement);
  const statement = {
    name,
    plan: 'once' as const,
    // Rows are locked in the order of their ids, by the plan that Postgres mostly makes: two settlements of the same receipts then
    // cannot wait for each other. Where it makes another (seen once, on a busy machine), one of them is tried again. The others
    // are locked to be seen as they are now: the same settlement may have waited for us, or we for it. Beside locking all first
    // and updating then, Postgres spends 11.9 us a receipt instead of 14.4 (500 at a time), and planned once 0.35 ms a statement
    // instead of 1.2.
    text: `
      with receipts as materialized (
        select * from unnest($2::uuid[], $3::int[], $4::timestamptz[]) r (id, lease, received_at) order by id
      ), settled as (
        update deliveries d
        set ${set}
        from receipts r
        where d.received_at = r.received_at and d.id = r.id and d.leases = r.lease and d.agent_id = $1 and d.state = 'leased'
        returning d.id, d.leases, d.state
      ), others as materialized (
        select d.id, d.leases, d.state
        from receipts r
        join deliveries d on d.received_at = r.received_at and d.id = r.id and d.leases = r.lease
        where d.agent_id = $1 and r.id not in (select id from settled)
        for share of d
      )
      select id, leases as lease, state, true as changed from settled
      union all
      select id, leases, state, false from others where state in (${already})`,
    values: [agentId, ...columns(receipts), ...values],
  };
  const rows = await retryDeadlock(() => database.query<SettledRow>(statement));
  return {
    done: new Set(rows.map(({ id, lease }) => receiptText({ deliveryId: id, lease }))),
    changed: rows.flatMap(({ changed, state }) => (changed ? [state] : [])),
  };
}

type SettledRow = { id: string; lease: number; state: Settled['changed'][number]; changed: boolean };

/** Takes back leases whose claim nobody heard: the attempt does not count. */
export async function releaseDeliveries(
  database: Database,
  agentId: string,
  receipts: readonly Receipt[],
): Promise<void> {
  const statement = {
    name: 'release-deliveries',
    plan: 'once' as const,
    text: `
      update deliveries d
      set state = 'pending', attempts = d.attempts - 1, available_at = now()
      from unnest($2::uuid[], $3::int[], $4::timestamptz[]) r (id, lease, received_at)
      where d.received_at = r.received_at and d.id = r.id and d.leases = r.lease
        and d.agent_id = $1 and d.state = 'leased'`,
    values: [agentId, ...columns(receipts)],
  };
  await retryDeadlock(() => database.query(statement));
}

/** Ids, leases and times as Postgres arrays; an id tells its time, and the time its partition. */
function columns(receipts: readonly Receipt[]): string[] {
  const array = (column: (receipt: Receipt) => string | number) => `{${receipts.map(column).join(',')}}`;
  return [
    array(({ deliveryId }) => deliveryId),
    array(({ lease }) => lease),
    array(({ deliveryId }) => new Date(uuidv7Milliseconds(deliveryId)).toISOString()),
  ];
}

function statementOf(settlement: Settlement): { name: string; set: string; already: string; values: unknown[] } {
  switch (settlement.kind) {
    case 'ack':
      return { name: 'ack-deliveries', set: `state = 'done', finished_at = now()`, already: `'done'`, values: [] };
    case 'extend':
      return {
        name: 'extend-deliveries',
        set: 'available_at = now() + make_interval(secs => $5)',
        already: 'null',
        values: [settlement.leaseSeconds],
      };
    case 'nack':
      return {
        name: 'nack-deliveries',
        set: `state = case when d.attempts < $7 then 'pending' else 'dead' end,
          finished_at = case when d.attempts < $7 then null else now() end,
          reason = $6,
          available_at = now() + make_interval(secs => coalesce($5::float8,
            least(${NACK_MAX_SECONDS}, ${NACK_FIRST_SECONDS} * 2 ^ least(d.attempts - 1, 20)) * (0.5 + random() / 2)))`,
        already: `'pending', 'dead'`,
        values: [settlement.delaySeconds, settlement.reason, settlement.attemptsMax],
      };
  }
}
