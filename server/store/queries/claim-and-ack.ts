/** Runs a claim statement, alone or together with the acknowledgement of what the agent claimed before. */
import type { Query } from '../pool.ts';
import type { LeasedRow } from './claim-order.ts';
import { type Acknowledged, ackText, parseAcknowledged, type Receipt, receiptColumns } from './settle-deliveries.ts';

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

const columns: readonly (keyof LeasedRow)[] = [
  'id',
  'state',
  'expired',
  'attempt',
  'lease',
  'eventId',
  'webhookId',
  'leasedUntil',
  'eventType',
  'contentType',
  'headers',
  'body',
  'webhookName',
  'sinceMs',
  'place',
];

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
  if (acks.length === 0)
    return {
      rows: await query<LeasedRow>({ name, plan: 'keyed', text: text(''), values: [...values], place }),
      acknowledged: [],
    };
  const receipts = [1, 2, 3].map((place) => `$${values.length + place}`);
  const answered = await query<LeasedRow & { acked: string | null }>({
    name: `${name}-and-ack`,
    plan: 'keyed',
    text: `
      with acked as (${ackText(receipts)}
      ), claimed as (${text(`and (state = 'pending' or id <> all (${receipts[0]}::uuid[]))`)}
      )
      select ${columns.map((column) => `"${column}"`).join(', ')}, null as acked from claimed
      union all
      select ${columns.map(() => 'null').join(', ')}, string_agg(acknowledged, ',') from acked`,
    values: [...values, ...receiptColumns(acks)],
    place,
  });
  const rows = answered.filter(({ id }) => id !== null);
  const acked = answered.find(({ id }) => id === null)?.acked?.split(',') ?? [];
  return { rows, acknowledged: acked.map(parseAcknowledged) };
}
