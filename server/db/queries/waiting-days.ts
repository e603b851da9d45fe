/**
 * SQL of the days (the first moment of each, `day`) in whose partition something waits for an agent, due or not: on one or two of
 * them where it keeps up. Whoever looks for it webhook by webhook looks into those alone.
 *
 * Pages touched for an agent with 300 webhooks over 38 partitions, with it and without:
 *
 *     a claim of 10, three days behind     9,600   32,000
 *     a look that finds no work              730   18,000
 *
 * The order is that of the index deliveries_claimable, which makes Postgres use it: one entry is read a day.
 *
 * @param agentId expression of the agent's id
 * @param claimableFrom expression of a time; what became claimable before is passed over
 */
export function waitingDays(agentId: string, claimableFrom: string): string {
  return `(
    select day
    from (
      select to_date(right(inhrelid::regclass::text, 8), 'YYYYMMDD')::timestamp at time zone 'UTC' as day
      from pg_inherits
      where inhparent = 'deliveries'::regclass
    ) days
    cross join lateral (
      select from deliveries
      where agent_id = ${agentId} and state in ('pending', 'leased') and available_at >= ${claimableFrom}
        and received_at >= day and received_at < day + interval '24 hours'
      order by webhook_id, available_at
      limit 1
    ) waiting
  )`;
}
