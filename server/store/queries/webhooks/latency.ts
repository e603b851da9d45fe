/** Latency histograms, by hour and by day. */
import {
  BUCKETS,
  LATENCY_DAYS_KEPT,
  LATENCY_HOURS_KEPT,
  LATENCY_SUBJECTS_MAX,
  type LatencyDays,
  type LatencyItem,
  type LatencyStage,
  latencySpans,
  latencyStages,
  quantileOf,
  RETRIED,
} from '../../../model/latency.ts';
import type { Queries } from '../../connect/pool.ts';
import { deleteOldSteps } from '../../retention/in-parts.ts';
import { columnsOf } from '../../sql.ts';

const [HOUR, DAY] = [3_600, 86_400];

/** Limit on the longest times that are read, divided among the hours or days. */
const LONGEST_MAX = 9_000;
/** Limit on the webhooks, and on the agents, whose p95 is compared. */
const COMPARED_MAX = 300;

/** Number of events of a webhook or an agent whose time is in a bucket. */
export interface LatencyRow {
  subjectId: string;
  stage: number;
  bucket: number;
  count: number;
  /** A time in the hour, Unix milliseconds. */
  atMs: number;
}

/** Adds counts. Rows are locked in the order of the primary key, so concurrent processes cannot deadlock. */
export async function addLatency({ query }: Queries, rows: readonly LatencyRow[]): Promise<void> {
  await query({
    name: 'add-latency',
    text: `
      insert into latency (subject_id, step, at, stage, bucket, count)
      select g.subject_id, s.step, to_timestamp(floor(g.ms / 1000 / s.step) * s.step), g.stage, g.bucket, sum(g.count)
      from unnest($1::uuid[], $2::float8[], $3::smallint[], $4::smallint[], $5::bigint[]) g (subject_id, ms, stage, bucket, count),
        (values (${HOUR}), (${DAY})) s (step)
      group by 1, 2, 3, 4, 5
      order by 1, 2, 3, 4, 5
      on conflict (subject_id, step, at, stage, bucket) do update set count = latency.count + excluded.count`,
    values: columnsOf(rows, 'subjectId', 'atMs', 'stage', 'bucket', 'count'),
  });
}

/**
 * SQL: the webhooks, or the agents, with the longest times, up to COMPARED_MAX.
 * @param gone column that is null for those that are shown
 */
const compared = (kind: LatencyItem['kind'], table: string, gone: string) => `
  (select '${kind}' as kind, t.id, t.name
   from (select * from longest order by bucket desc, count desc offset 0) l join ${table} t on t.id = l.subject_id
   where t.${gone} is null order by l.bucket desc, l.count desc limit ${COMPARED_MAX})`;

/** SQL: subjects with the longest times of each hour or day, by an index. Reading all times of 100,000 webhooks takes seconds. */
const longestOfAll = `
  select subject_id, max(bucket) as bucket, sum(count) as count
  from generate_series(0, $3) i
  cross join lateral (
    select subject_id, bucket, count from latency where step = $1 and at = to_timestamp($2 + i * $1) order by bucket desc limit ${LONGEST_MAX} / ($3 + 1)
  ) l
  group by 1`;

/** A subject with its counters, as JSON: their numbers, stage * BUCKETS + bucket, and their counts. */
type Counted = Pick<LatencyItem, 'kind' | 'id' | 'name'> & { counters: number[]; counts: number[] };

/**
 * Reads the latency of webhooks and agents that are not deleted or revoked and had events in the span, the slowest by their p95 first, at
 * most LATENCY_SUBJECTS_MAX of each. Only the COMPARED_MAX with the longest times are compared.
 * @param id of one webhook or agent; null: all
 */
export async function readLatency(
  { query }: Queries,
  days: LatencyDays,
  nowMs: number,
  id: string | null = null,
): Promise<LatencyItem[]> {
  const step = latencySpans[days];
  const steps = (days * DAY) / step;
  const first = (Math.floor(nowMs / 1_000 / step) - steps + 1) * step;
  const rows = await query<Counted>({
    name: id === null ? 'read-latency' : 'read-latency-of-one',
    text: `
      with longest as materialized (${id === null ? longestOfAll : 'select $3::uuid as subject_id, 0 as bucket, 0 as count'})
      select s.*, c.*
      from (${compared('webhook', 'webhooks', 'deleted_at')} union all ${compared('agent', 'agents', 'revoked_at')}) s
      cross join lateral (
        select array_to_json(array_agg(counter)) as counters, array_to_json(array_agg(count)) as counts
        from (
          select stage * ${BUCKETS} + bucket as counter, sum(count) as count
          from latency where subject_id = s.id and step = $1 and at >= to_timestamp($2)
          group by 1
        ) g
      ) c
      where c.counts is not null
      order by s.name, s.id`,
    values: [step, first, id ?? steps - 1],
    plan: 'keyed',
  });
  const left = { webhook: LATENCY_SUBJECTS_MAX, agent: LATENCY_SUBJECTS_MAX };
  const items = rows.map(itemOf).sort((one, other) => longestOf(other) - longestOf(one));
  return items.filter(({ kind }) => left[kind]-- > 0);
}

function itemOf({ kind, id, name, counters, counts }: Counted): LatencyItem {
  const countsOf = (stage: number) => {
    const first = stage * BUCKETS;
    const own = counters.flatMap((counter, i) =>
      counter >= first && counter < first + BUCKETS ? [[counter - first, counts[i]!] as const] : [],
    );
    return new Map(own);
  };
  const timed = (stage: LatencyStage) => {
    const own = countsOf(latencyStages.indexOf(stage));
    if (own.size === 0) return null;
    const count = [...own.values()].reduce((sum, one) => sum + one, 0);
    return { count, p50_ms: quantileOf(own, 0.5), p95_ms: quantileOf(own, 0.95) };
  };
  return {
    kind,
    id,
    name,
    stored: timed('stored'),
    claimed: timed('claimed'),
    acknowledged: timed('acknowledged'),
    retries: countsOf(RETRIED).get(0) ?? 0,
  };
}

/** The longest p95 of a stage, milliseconds. */
function longestOf(item: LatencyItem): number {
  return Math.max(...latencyStages.map((stage) => item[stage]?.p95_ms ?? 0));
}

/** Deletes the rows of hours after LATENCY_HOURS_KEPT, and of days after LATENCY_DAYS_KEPT. @param stopping see inParts */
export async function deleteOldLatency(database: Queries, stopping?: () => boolean): Promise<void> {
  await deleteOldSteps(database, 'latency', { [HOUR]: LATENCY_HOURS_KEPT, [DAY]: LATENCY_DAYS_KEPT * 24 }, stopping);
}
