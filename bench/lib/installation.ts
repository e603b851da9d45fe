/** Fills the database of an installation by SQL: webhooks, agents, subscriptions, events of several days and their deliveries. */

import { randomUUID } from 'node:crypto';
import { DAY_MS } from '../../server/base/time/durations.ts';
import type { Database } from '../../server/store/connect/pool.ts';
import { tendDays } from '../../server/store/retention/partitions.ts';
import { deriveKey, seal } from '../../server/store/secrets/seal.ts';
import { arrayOf } from '../../server/store/sql.ts';
import { FILL_TIMEOUT_MS } from './backlog.ts';
import { type BenchDatabase, createPast } from './database.ts';
import type { BenchContext } from './outcome.ts';
import { formatNumber } from './stats.ts';

interface Installation {
  webhooks: number;
  agents: number;
  /** One for each of the first webhooks. */
  subscriptions: number;
  /** How many of them the first agent has; the other agents take turns. Null: the first agent takes turns too. */
  ofFirstAgent: number | null;
  events: number;
  /** Deliveries that wait; the others are done, a few are dead. */
  pending: number;
  days: number;
  /** Default: as short as possible. */
  bodyBytes?: number;
}

/** Events of one statement that stores them. */
const PART = 100_000;
const SEALED_PART = 5_000;

/**
 * Stores the installation beside the rows that exist. Events are spread evenly over the webhooks and the days before now.
 * @param first webhook and agent that exist already, and count as the first ones
 */
export async function fillInstallation(
  { say, signal }: Pick<BenchContext, 'say' | 'signal'>,
  database: Database,
  size: Installation,
  first: { webhookId: string; agentId: string },
): Promise<void> {
  const run = (text: string, values: unknown[] = []) => database.query({ text, values, timeoutMs: FILL_TIMEOUT_MS });
  const { events, days, bodyBytes = 20 } = size;
  await createPast(database, days);
  await run(
    `insert into webhooks (id, name, created_at)
     select gen_random_uuid(), 'volume ' || i, now() - i * interval '1 minute' from generate_series(2, ${size.webhooks}) i`,
  );
  await run(
    `insert into agents (id, name, lookup_id, secret_hash, created_at)
     select gen_random_uuid(), 'volume ' || i, lpad(i::text, 12, '0'), sha256(i::text::bytea), now() - i * interval '1 minute'
     from generate_series(2, ${size.agents}) i`,
  );
  // Subscriptions come later: they would create deliveries for each event.
  const own = size.ofFirstAgent ?? 0;
  await run(
    `create table volume_pairs as
     select w.id as webhook_id, a.id as agent_id, w.place - 1 as place
     from (select id, row_number() over (order by id <> $1, id) as place from webhooks) w
     left join (select id, row_number() over (order by id <> $2, id) as place from agents) a
       on w.place <= ${size.subscriptions}
         and a.place = case when w.place <= ${own} then 1 else (w.place - 1 - ${own}) % ${size.agents} + 1 end`,
    [first.webhookId, first.agentId],
  );
  await run('create index on volume_pairs (place)');
  const untilMs = Date.now();
  const share = size.pending / ((events * size.subscriptions) / size.webhooks);
  for (let from = 0; from < events; from += PART) {
    signal.throwIfAborted();
    await run(
      `with stored as (
        insert into events (id, webhook_id, received_at, source_ip, headers, content_type, body, bytes)
        select (lpad(to_hex(ms), 12, '0') || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid,
          p.webhook_id, to_timestamp(ms / 1000.0), '192.0.2.1', 'accept: */*', 'application/json', convert_to(rpad('{"number":' || i || '}', $6::int), 'UTF8'), $6
        from generate_series($1::bigint, $2::bigint) i
        cross join lateral (select ($3::float8 - (1 - i / $4::float8) * ${days * DAY_MS})::bigint as ms) t
        join volume_pairs p on p.place = i % ${size.webhooks}
        returning id, webhook_id, received_at, bytes
      )
      insert into deliveries
        (id, webhook_id, agent_id, event_id, received_at, bytes, state, available_at, attempts, leases, finished_at, reason)
      select delivery_id(id), webhook_id, agent_id, id, received_at, bytes, state, received_at,
        ended::int, ended::int, case when ended then received_at end, case when state = 'dead' then 'the service answers 503' end
      from stored
      join volume_pairs using (webhook_id)
      cross join lateral (select random() as share where id is not null) r
      cross join lateral (
        select case when share < $5::float8 then 'pending' when share > 0.996 then 'dead' else 'done' end as state,
          share >= $5::float8 as ended
      ) s
      where agent_id is not null`,
      [from, Math.min(from + PART, events) - 1, untilMs, events, share, bodyBytes],
    );
    if ((from / PART) % 5 === 4) say(`${formatNumber(from + PART)} of ${formatNumber(events)} events stored`);
  }
  await run(
    'insert into subscriptions (webhook_id, agent_id) select webhook_id, agent_id from volume_pairs where agent_id is not null',
  );
  await run('drop table volume_pairs');
  await fillHistory(run);
  // As maintenance did an hour after each day.
  await tendDays(database, Date.now());
  await run('vacuum analyze webhooks, agents, subscriptions, webhook_state, history, latency, events, deliveries');
  await run('checkpoint');
}

/**
 * Stores what the processes would have counted of these events: requests by hour, quarter of an hour and minute, times, and the state of each
 * webhook. In the order of time, as processes write it: otherwise the last day of 100,000 webhooks was in 68,000 blocks instead of 1,300.
 */
async function fillHistory(run: (text: string) => Promise<unknown>): Promise<void> {
  const zeros = '0, 0, 0, 0, 0, 0, 0';
  const columns = 'accepted, bytes, duplicates, rejected, limited, disabled, length_required, too_large, unavailable';
  for (const [step, hours] of [
    [3_600, 24 * 400],
    [900, 48],
    [60, 48],
  ] as const)
    for (const webhook of ['webhook_id', `'00000000-0000-0000-0000-000000000000'::uuid`])
      await run(
        `insert into history (webhook_id, step, at, ${columns})
         select ${webhook}, ${step}, to_timestamp(floor(extract(epoch from received_at) / ${step}) * ${step}), count(*), sum(bytes), ${zeros}
         from events where received_at > now() - interval '${hours} hours' group by 1, 3
         order by 3
         on conflict do nothing`,
      );
  await run(
    `insert into latency (subject_id, step, at, stage, bucket, count)
     select subject_id, 3600, date_trunc('hour', received_at), stage, 8 + (floor(random() * 12))::int, 1
     from (
       select webhook_id as subject_id, received_at, 0 as stage from events where received_at > now() - interval '24 hours'
       union all
       select unnest(array[webhook_id, agent_id]), received_at, stage from deliveries, generate_series(1, 2) stage
       where state = 'done' and received_at > now() - interval '24 hours'
     ) times
     on conflict do nothing`,
  );
  await run(
    `insert into webhook_state (webhook_id, last_event_at, events, bytes, hour, hours, recent)
     select webhook_id, max(received_at), count(*), sum(bytes), min(this_hour),
       coalesce(bit_or(1::bit(168) << ago) filter (where ago < 168), 0::bit(168)), sum(power(0.5, ago / 12.0::float8))
     from events,
       lateral (select floor(extract(epoch from now()) / 3600)::int as this_hour) n,
       lateral (select this_hour - floor(extract(epoch from received_at) / 3600)::int as ago) h
     group by 1
     on conflict do nothing`,
  );
}

/** Gives the secret of the bench to every webhook without one. */
export async function addSecrets({ database, secretsKey, secret }: BenchDatabase): Promise<void> {
  const key = deriveKey(secretsKey, 'webhook-secrets');
  const rows = await database.query<{ id: string }>({
    text: 'select id from webhooks w where not exists (select from webhook_secrets s where s.webhook_id = w.id)',
  });
  for (let from = 0; from < rows.length; from += SEALED_PART) {
    const ids = rows.slice(from, from + SEALED_PART).map(({ id }) => id);
    const sealed = ids.map((id) => seal(Buffer.from(secret), key, id).toString('hex'));
    await database.query({
      text: `insert into webhook_secrets (webhook_id, slot, sealed)
             select id, 'current', decode(sealed, 'hex') from unnest($1::uuid[], $2::text[]) s (id, sealed)`,
      values: [arrayOf(ids), arrayOf(sealed)],
      timeoutMs: FILL_TIMEOUT_MS,
    });
  }
  await database.query({ text: 'vacuum analyze webhook_secrets' });
}

/** Adds a webhook and an agent before their server starts. @param agent look-up id and hash of its credential */
export async function addFirst(
  database: Database,
  agent: { lookupId: string; secretHash: Buffer },
): Promise<{ webhookId: string; agentId: string }> {
  const [webhookId, agentId] = [randomUUID(), randomUUID()];
  await database.query({ text: `insert into webhooks (id, name) values ($1, 'first')`, values: [webhookId] });
  await database.query({
    text: `insert into agents (id, name, lookup_id, secret_hash) values ($1, 'first', $2, $3)`,
    values: [agentId, agent.lookupId, agent.secretHash],
  });
  return { webhookId, agentId };
}
