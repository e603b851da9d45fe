/** Runs a claim statement, alone or together with the acknowledgement of what the agent claimed before. */
import type { Query } from '../../connect/pool.ts';
import { type AnsweredRow, parseLeased } from './lease.ts';
import type { LeasedRow } from './order.ts';
import { type Receipt, receiptColumns } from './receipts.ts';
import { type Acknowledged, ackText, parseAcknowledged } from './settle.ts';

interface ClaimStatement {
  name: string;
  /** @param leftOut SQL of one more condition on the deliveries to lease */
  text: (leftOut: string) => string;
  values: readonly unknown[];
  place: { cell: number };
}

export interface ClaimedRows {
  rows: LeasedRow[];
  acknowledged: Acknowledged[];
}

/**
 * In one statement both share a round trip and a commit. A statement changes a row once, so the claim leaves alone what is acknowledged:
 * also an expired lease, for which the acknowledgement is then in time.
 * @param acks of deliveries in the same cell; empty: only claims
 */
export async function runClaim(
  query: Query,
  { name, text, values, place }: ClaimStatement,
  acks: readonly Receipt[],
): Promise<ClaimedRows> {
  if (acks.length === 0) {
    const rows = await query<AnsweredRow>({ name, plan: 'keyed', text: text(''), values: [...values], place });
    return { rows: rows.map(parseLeased), acknowledged: [] };
  }
  const receipts = [1, 2, 3].map((number) => `$${values.length + number}`);
  const rows = await query<AnsweredRow>({
    name: `${name}-and-ack`,
    plan: 'keyed',
    text: `
      with acked as (${ackText(receipts)}
      ), claimed as (${text(`and (state = 'pending' or id <> all (${receipts[0]}::uuid[]))`)}
      )
      select * from claimed
      union all
      select string_agg(acknowledged, ','), null, null, null, null from acked`,
    values: [...values, ...receiptColumns(acks)],
    place,
  });
  // The last row is that of the acknowledgements.
  const acked: string | null | undefined = rows.pop()?.leased;
  return { rows: rows.map(parseLeased), acknowledged: acked?.split(',').map(parseAcknowledged) ?? [] };
}
