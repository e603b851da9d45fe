import type { Database } from '../pool.ts';
import { LAST_LEASE_ENDED } from './end-last-leases.ts';
import { waitingDays } from './waiting-days.ts';

export interface ClaimOrder {
  agentId: string;
  /** The agent's when it was let in: one that is rotated or revoked while its claim waits gets nothing more. */
  generation: number;
  max: number;
  leaseSeconds: number;
  /** Null: of all webhooks that the agent is subscribed to, or was given events of. */
  webhookIds: readonly string[] | null;
  /** Of all bodies together; the first delivery passes whatever its size. */
  bytesMax: number;
  /** A delivery that used them up becomes a dead letter instead of being claimed again. */
  attemptsMax: number;
  /** Nothing that became claimable before is looked at; `-infinity` looks at everything. */
  claimableFrom: string;
  /** The turn begins with the webhook whose id follows this one; null: with the first. */
  afterWebhookId: string | null;
}

/** A delivery under lease, with its event. */
export interface Claimed {
  id: string;
  attempt: number;
  /** Number of this lease among all that the delivery ever had. */
  lease: number;
  leasedUntil: string;
  /** Since when the oldest delivery that the claim met could have been claimed, Unix milliseconds; not always one it got. */
  oldestSinceMs: number;
  /** Place in the order in which the webhooks took turns. */
  place: number;
  eventId: string;
  webhookId: string;
  webhookName: string;
  receivedAt: string;
  contentType: string | null;
  headers: Buffer;
  body: Buffer;
}

/** Leases that a claim found ended without an answer, and how many of their deliveries became dead letters. */
export interface EndedLeases {
  expired: number;
  dead: number;
}

/**
 * Rows of one webhook that a claim locks at least, where there are that many, however small an even share of `max` would be. Where one
 * of many webhooks is flooded and the others are empty, it is also all that one claim gets: the next one takes more. With no bound
 * but the claim's own, an agent that was behind in 280 webhooks locked all of their 28,800 rows to get 1,000.
 */
const EACH_MIN = 32;

/**
 * Leases the oldest deliveries, fairly over webhooks: each webhook's first, then each one's second, and so on, so that a
 * flood in one does not keep the others waiting. A claim that ends within a turn says where (`place`), and the next one goes on
 * there: with max 1, the default, webhooks take turns from claim to claim. Rows that another claim is about to take are skipped,
 * never waited for.
 *
 * What was tried: Postgres 15, 100,000 deliveries of 1 KiB pending, one connection, claim and ack in turns, the ways side by side
 * in one run while others used the machine; medians of processor time of Postgres in us a claimed delivery:
 *
 *     deliveries a claim                          1      10     100     500
 *     planned anew each time                   1998     237      52    31.9
 *     planned once a connection                 710     106      38    32.1
 *       and commit not flushed                  590      95      36    31.2
 *         and webhooks joined before, not after 583      91      36    31.0
 *         and the body escaped, not in hex      589      92      33    26.7
 *
 * Not flushing halved the time of a claim of one (2.0 to 0.8 ms) and is wrong: with Postgres killed right after a claim, all of
 * its receipts were given again (5 of 5), and who holds the old ones could refuse or extend another's lease. Escaping is left
 * out: a body that is not ASCII grows to four times its bytes, and is slow to read in JavaScript. Without the index
 * deliveries_of_agent a claim costs about 2 us less, an ack 2.5; agents' lists need it. Fillfactor 50: no difference to be told.
 *
 * Turns by webhook instead of by age cost little: processor time of Postgres in us a claimed delivery, 60,000 pending, medians of 9
 * rounds in turns, by age and by webhook: 1,162 and 1,198 with max 1, 153 and 158 with 10, 59 and 65 with 100 of one webhook; 1,562
 * and 1,560, 246 and 244, 76 and 80 of ten webhooks. By age, 40 claims of 1 beside an older 5,000 never reached two other webhooks.
 *
 * Events of one batch became claimable at the same moment. Of these the index gives those stored first, and their ids rise from
 * line to line: one consumer gets the lines in their order.
 *
 * A delivery whose last lease has ended unanswered becomes a dead letter on the way; where a look met nothing else, it looks
 * again behind them.
 */
export async function claimDeliveries(
  database: Database,
  order: ClaimOrder,
  onEnded: (ended: EndedLeases) => void = () => {},
): Promise<Claimed[]> {
  for (;;) {
    const rows = await claimOnce(database, order);
    const claimed = rows.filter(({ state }) => state === 'leased');
    onEnded({ expired: rows.filter(({ expired }) => expired).length, dead: rows.length - claimed.length });
    if (claimed.length > 0 || rows.length === 0) return claimed;
  }
}

type ClaimedRow = Claimed & { state: 'leased' | 'dead'; expired: boolean };

/** Rows that became dead letters carry nothing but their state. */
function claimOnce(database: Database, order: ClaimOrder): Promise<ClaimedRow[]> {
  return database.query<ClaimedRow>({
    name: 'claim-deliveries',
    plan: 'once',
    text: `
      with days as materialized (
        select min(day) as first, max(day) + interval '24 hours' as after_last from ${waitingDays('$1', '$8::timestamptz')} d
      ), candidates as materialized (
        select d.received_at, d.id, d.event_id, d.webhook_id, d.available_at, d.bytes, d.state, w.name as webhook_name
        from agents a
        cross join days
        cross join (
          select webhook_id, count(*) over () as of_all
          from (
            select webhook_id from subscriptions where agent_id = $1
            union
            select webhook_id from replay_targets where agent_id = $1
          ) subscribed
          where $4::uuid[] is null or webhook_id = any ($4)
        ) s
        join webhooks w on w.id = s.webhook_id
        cross join lateral (
          select received_at, id, event_id, webhook_id, available_at, bytes, state
          from deliveries
          where agent_id = $1 and webhook_id = s.webhook_id and received_at >= days.first and received_at < days.after_last
            and state in ('pending', 'leased') and available_at <= now() and available_at >= $8::timestamptz
          order by available_at
          limit least($2::bigint, greatest(${EACH_MIN}, ceil(4.0 * $2 / s.of_all)))
          for update skip locked
        ) d
        where a.id = $1 and a.generation = $7
      ), in_turn as (
        select *, row_number() over (order by turn, webhook_id <= $9::uuid, webhook_id) as place
        from (select *, row_number() over (partition by webhook_id order by available_at, event_id) as turn from candidates) t
        order by place
        limit $2
      ), chosen as (
        select received_at, id, webhook_id, webhook_name, place, state = 'leased' as expired
        from (select *, sum(bytes) over (order by place) - bytes as bytes_before from in_turn) t
        where bytes_before < $6
      ), claimed as (
        update deliveries d
        set state = case when d.attempts < $5 then 'leased' else 'dead' end,
          attempts = case when d.attempts < $5 then d.attempts + 1 else d.attempts end,
          last_lease = d.attempts + 1 >= $5,
          leases = d.leases + 1,
          finished_at = case when d.attempts < $5 then null else now() end,
          reason = case when d.attempts < $5 then d.reason else coalesce(d.reason, '${LAST_LEASE_ENDED}') end,
          available_at = now() + make_interval(secs => $3)
        from chosen c
        where d.received_at = c.received_at and d.id = c.id and d.webhook_id = c.webhook_id
        returning d.id, d.state, d.attempts, d.leases, d.available_at, d.event_id, d.webhook_id, d.received_at, c.webhook_name,
          c.place, c.expired
      )
      select c.id, c.state, c.expired, c.attempts as attempt, c.leases as lease, c.event_id as "eventId", c.webhook_id as "webhookId", c.webhook_name as "webhookName",
        to_char(c.available_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as "leasedUntil",
        (select extract(epoch from min(available_at)) * 1000 from candidates)::float8 as "oldestSinceMs", c.place::int,
        to_char(c.received_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as "receivedAt",
        e.content_type as "contentType", e.headers, e.body
      from claimed c
      left join events e on e.received_at = c.received_at and e.id = c.event_id and e.webhook_id = c.webhook_id
        and c.state = 'leased'
      where e.id is not null or c.state = 'dead'
      order by c.received_at, c.event_id`,
    values: [
      order.agentId,
      order.max,
      order.leaseSeconds,
      order.webhookIds && `{${order.webhookIds.join(',')}}`,
      order.attemptsMax,
      order.bytesMax,
      order.generation,
      order.claimableFrom,
      order.afterWebhookId,
    ],
  });
}

/** Which of these agents could claim something now; one query for all that wait. `claimableFrom` as for a claim. */
export async function agentsWithWork(
  database: Database,
  agents: readonly { id: string; claimableFrom: string }[],
): Promise<string[]> {
  const rows = await database.query<{ id: string }>({
    name: 'agents-with-work',
    plan: 'once',
    text: `
      select a.id
      from unnest($1::uuid[], $2::timestamptz[]) a (id, claimable_from)
      where exists (
        select from ${waitingDays('a.id', 'a.claimable_from')} d
        cross join (
          select webhook_id from subscriptions where agent_id = a.id
          union all
          select webhook_id from replay_targets where agent_id = a.id
        ) s
        cross join lateral (
          select from deliveries
          where agent_id = a.id and webhook_id = s.webhook_id and received_at >= day and received_at < day + interval '24 hours'
            and state in ('pending', 'leased') and available_at <= now() and available_at >= a.claimable_from
          limit 1
        ) due
      )`,
    values: [`{${agents.map(({ id }) => id).join(',')}}`, `{${agents.map((agent) => agent.claimableFrom).join(',')}}`],
  });
  return rows.map((row) => row.id);
}
