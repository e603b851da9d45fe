/** Rejections that belong together: of one webhook, with the same reason and header, so that one change fixes all of them. */
import type { RejectionReason } from '../../../model/signatures/diagnosis/reasons.ts';
import type { Database, Query } from '../../connect/pool.ts';
import { arrayOf, isoColumn, isoText } from '../../sql.ts';
import { ALL_WEBHOOKS, HOUR } from '../webhooks/history.ts';
import {
  detailColumns,
  fromRejections,
  type RejectionDetail,
  type RejectionRecord,
  rejectionColumns,
} from './rejections.ts';

/** Rejections of one webhook with the same reason and header, which one fix may concern. */
interface GroupRow {
  webhook_id: string;
  webhook_name: string;
  reason: RejectionReason;
  header: string | null;
  rejections: number;
  sources: number;
  /** Verified by a re-check and not accepted yet. */
  acceptable: number;
  first_received_at: string;
  last_received_at: string;
  /** The newest, at most GROUP_SHOWN_MAX. */
  newest: string[];
}

const GROUP_SHOWN_MAX = 5;

const acceptable = `r.checked_reason = 'verifies_now' and r.accepted_event_id is null and r.body is not null and not r.batch`;

/** Groups the rejections that were not accepted: those of the last hour first, the largest first. The ring bounds what is read. */
export function groupRejections(database: Database, webhookId: string | null, limit: number): Promise<GroupRow[]> {
  return database.query<GroupRow>({
    name: 'group-rejections',
    text: `
      select r.webhook_id, w.name as webhook_name, r.reason::text as reason, r.header, count(*)::int as rejections,
        count(distinct r.source_ip)::int as sources, (count(*) filter (where ${acceptable}))::int as acceptable,
        ${isoText('min(r.received_at)')} as first_received_at, ${isoText('max(r.received_at)')} as last_received_at,
        (array_agg(r.id::text order by r.id desc))[1:${GROUP_SHOWN_MAX}] as newest
      ${fromRejections}
      where r.accepted_event_id is null and ($1::uuid is null or r.webhook_id = $1)
      group by r.webhook_id, w.name, r.reason, r.header
      order by max(r.received_at) > now() - interval '1 hour' desc, count(*) desc, max(r.received_at) desc
      limit $2`,
    values: [webhookId, limit],
  });
}

/** How much of what was rejected the samples are. */
interface Kept {
  kept: number;
  /** Requests rejected since `since`. The counts of the last seconds may be missing, but not below `kept`. */
  rejected: number;
  /** Start of the hour of the oldest sample; null: nothing is kept. */
  since: string | null;
}

/** Compares the samples of a webhook, or of all (null), with the count of all rejected requests of the same time. */
export async function countKept(database: Database, webhookId: string | null): Promise<Kept> {
  const [row] = await database.query<Kept>({
    name: 'count-kept-rejections',
    text: `
      with samples as (
        select count(*)::int as kept, date_trunc('hour', min(r.received_at), 'UTC') as since
        ${fromRejections}
        where $1::uuid is null or r.webhook_id = $1
      )
      select s.kept, ${isoColumn('s.since')}, greatest(s.kept, (
        select sum(h.rejected) from history h
        where h.webhook_id = coalesce($1, '${ALL_WEBHOOKS}') and h.step = ${HOUR} and h.at >= s.since))::float8 as rejected
      from samples s`,
    values: [webhookId],
  });
  return row!;
}

/** Rejections by id, without bodies, newest first. */
export function readRejections(database: Database, ids: readonly string[]): Promise<RejectionRecord[]> {
  return database.query<RejectionRecord>({
    name: 'read-rejections',
    text: `select ${rejectionColumns} ${fromRejections} where r.id = any ($1::uuid[]) order by r.id desc`,
    values: [arrayOf(ids)],
  });
}

/** The rejection itself, and the newest with the same webhook, reason and header; those that were not accepted and have a body. */
export function listSimilarRejections(
  query: Query,
  { id, webhook_id, reason, header }: Pick<RejectionRecord, 'id' | 'webhook_id' | 'reason' | 'header'>,
  limit: number,
): Promise<RejectionDetail[]> {
  return query<RejectionDetail>({
    name: 'list-similar-rejections',
    text: `
      select ${detailColumns} ${fromRejections}
      where r.webhook_id = $1 and r.reason = $2 and r.header is not distinct from $3
        and r.accepted_event_id is null and r.body is not null
      order by (r.id = $4) desc, r.id desc
      limit $5`,
    values: [webhook_id, reason, header, id, limit],
  });
}

/** Ids of a webhook's rejections that verified at their last re-check and can be accepted, oldest first. */
export async function listAcceptable(database: Database, webhookId: string, limit: number): Promise<string[]> {
  const rows = await database.query<{ id: string }>({
    name: 'list-acceptable-rejections',
    text: `select r.id from rejections r where r.webhook_id = $1 and ${acceptable} order by r.id limit $2`,
    values: [webhookId, limit],
  });
  return rows.map(({ id }) => id);
}
