/** Agents that are not revoked, as processes cache them: for authentication and claims. */
import type { Database, Queries } from '../../connect/pool.ts';
import { arrayOf } from '../../sql.ts';
import { subscribedWebhooks } from './subscriptions.ts';

/** A claim of an agent with more webhooks than this first looks for those with deliveries. */
const MANY_WEBHOOKS = 100;

const ofDeliveries = `
  exists (select from ${subscribedWebhooks('agents.id')} s where filter is not null) as filtered,
  exists (select from subscriptions s where s.agent_id = agents.id and s.order_by is not null) as ordered,
  (select case when count(*) = 1 then min(webhook_id::text) end from ${subscribedWebhooks('agents.id')} s) as "onlyWebhookId",
  (select count(*) > ${MANY_WEBHOOKS} from ${subscribedWebhooks('agents.id')} s) as "hasManyWebhooks"`;

/** An agent that is not revoked. */
export interface ActiveAgent {
  readonly id: string;
  readonly name: string;
  /** Generation of the current credential. */
  readonly generation: number;
  /** End of the overlap, Unix milliseconds: until then sessions of the previous generation are valid too. Null: no overlap. */
  readonly previousUntilMs: number | null;
  /** The generation of the request's credential, if that is the previous one. */
  readonly previousGeneration?: number | null;
  /** A subscription of the agent has a filter, or had one when it ended. */
  readonly filtered: boolean;
  /** A subscription of the agent has an `order_by`. */
  readonly ordered: boolean;
  /** The only webhook of which the agent may have deliveries; null: none or several. */
  readonly onlyWebhookId: string | null;
  /** It may have deliveries of more than MANY_WEBHOOKS webhooks. */
  readonly hasManyWebhooks: boolean;
  /** Limit on its deliveries under lease at a time; null: none. */
  readonly maxLeased: number | null;
  /** Its claims find nothing. */
  readonly paused: boolean;
}

/** Whether a session or a credential of the generation `of` is valid. */
export function isValidFor({ generation, previousUntilMs }: ActiveAgent, of: number, nowMs: number): boolean {
  return of === generation || (of === generation - 1 && previousUntilMs !== null && nowMs < previousUntilMs);
}

const cached = `
  id, name, generation, max_leased as "maxLeased", paused_at is not null as paused,
  case when previous_generation = generation - 1 then extract(epoch from previous_expires_at)::float8 * 1000 end as "previousUntilMs",
  ${ofDeliveries}`;

/** Reads the agents with these ids (null: the newest agents); unknown and revoked ones are omitted. */
export function readAgents(database: Queries, ids: readonly string[] | null, rowsMax: number): Promise<ActiveAgent[]> {
  return database.query<ActiveAgent>({
    name: 'read-agents',
    text: `
      select ${cached}
      from agents
      where ($1::uuid[] is null or id = any ($1)) and revoked_at is null
      order by created_at desc
      limit $2`,
    values: [ids && arrayOf(ids), rowsMax],
  });
}

/** Finds the agent of a credential, current or previous, and the hash of its secret part, with one probe of each index. */
export async function findAgentByLookupId(
  database: Database,
  lookupId: string,
): Promise<(ActiveAgent & { secretHash: Buffer }) | undefined> {
  const [row] = await database.query<ActiveAgent & { secretHash: Buffer }>({
    name: 'agent-by-lookup-id',
    text: `
      select ${cached},
        case when lookup_id = $1 then secret_hash else previous_secret_hash end as "secretHash",
        case when lookup_id <> $1 then previous_generation end as "previousGeneration"
      from agents
      where (
          lookup_id = $1
          or (previous_lookup_id = $1 and previous_generation = generation - 1 and previous_expires_at > now())
        )
        and revoked_at is null`,
    values: [lookupId],
  });
  return row;
}

/**
 * Records the time and the client address of the last request of each agent. Of two concurrent calls, the later one counts.
 * Rows are locked in the order of their ids, so concurrent processes cannot deadlock.
 * @param seen client address by agent id
 * @param byPrevious agents whose previous credential or a session of it was used
 */
export async function recordAgentsSeen(
  { query }: Queries,
  seen: ReadonlyMap<string, string>,
  byPrevious: ReadonlySet<string> = new Set(),
): Promise<void> {
  await query({
    name: 'agent-sightings',
    text: `
      with locked as (
        select a.id, s.address, s.by_previous
        from agents a join unnest($1::uuid[], $2::inet[], $3::boolean[]) s (id, address, by_previous) using (id)
        where coalesce(a.last_seen_at < now(), true)
        order by a.id for no key update of a
      )
      update agents a set last_seen_at = now(), last_seen_from = locked.address,
        previous_used_at = case when locked.by_previous then now() else a.previous_used_at end
      from locked
      where a.id = locked.id`,
    values: [
      arrayOf(seen.keys()),
      arrayOf(seen.values()),
      arrayOf([...seen.keys()].map((id) => String(byPrevious.has(id)))),
    ],
  });
}
