/**
 * Scenario `volume`: pages and API calls of a Weir that people open when agents are down: many events are stored, and a million deliveries
 * wait, of six days, 2,000 webhooks and 200 agents.
 *
 *     each round:  each page and API call, some times, one after another, and claims with their acknowledgement
 *
 * Postgres logs each statement that takes longer than it should, also those of maintenance and alerts.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CommandError } from '../server/base/command/io.ts';
import { readProcessor, timeBetween } from '../server/operate/load/processor.ts';
import { createDays, DAY_MS } from '../server/store/partitions.ts';
import { openAgent } from './lib/agent.ts';
import { FILL_TIMEOUT_MS } from './lib/backlog.ts';
import { type BenchDatabase, postgresPids } from './lib/database.ts';
import type { BenchContext, Goal, Outcome, Scenario } from './lib/outcome.ts';
import { formatNumber, formatSpread, spreadOf } from './lib/stats.ts';
import { openWeir } from './lib/weir.ts';

const EVENTS = 5_000_000;
const PENDING = 1_000_000;
const DAYS = 6;
const WEBHOOKS = 2_000;
const AGENTS = 200;
/** Events of one statement that stores them. */
const PART = 100_000;
/** Number of loads of each page in a round. */
const LOOKS = 5;
const PAGE_MS = 150;
const STATEMENT_MS = 500;

export const volume: Scenario = {
  name: 'volume',
  summary: 'pages and API calls with 5,000,000 events (--events N) and 1,000,000 pending deliveries',
  defaults: { rounds: 3, seconds: 1 },
  run,
};

async function run(context: BenchContext): Promise<Outcome> {
  const opened = await openWeir(context);
  const { weir } = opened;
  const webhook = await weir.addWebhook();
  const agent = await weir.addAgent([]);
  const token = await weir.addToken();
  const events = context.events ?? EVENTS;
  await fill(context, opened, { webhookId: webhook.id, agentId: agent.id, events });
  const client = await openAgent(weir.origin, agent.credential);
  context.undo(() => client.close());

  const places = [
    ...['/', '/events', '/deliveries', '/deliveries?state=pending', '/deliveries?state=dead', '/webhooks', '/agents'],
    ...[`/webhooks/${webhook.id}`, `/agents/${agent.id}`, `/deliveries?agent=${agent.id}`, '/rejections'],
    ...['conditions', 'agents/activity', 'deliveries/counts', 'deliveries', 'deliveries/dead', 'webhooks/activity'].map(
      (path) => `/api/v1/${path}`,
    ),
    ...['history', 'history/webhooks', 'alerts', 'webhooks', 'agents', 'events'].map((path) => `/api/v1/${path}`),
  ];
  const timed = new Map<string, Look[]>();
  const time = async (name: string, work: () => Promise<unknown>) => {
    const read = async () => readProcessor(weir.processes, await postgresPids(opened.database));
    const before = await read();
    const startMs = performance.now();
    await work();
    const ms = performance.now() - startMs;
    const { postgres, ...ofWeir } = timeBetween(before, await read());
    const weirMs = (ofWeir.eventLoop + ofWeir.signatures + ofWeir.other) / 1000;
    timed.set(name, [...(timed.get(name) ?? []), { ms, postgresMs: postgres / 1000, weirMs }]);
  };
  const look = async (path: string) => {
    const response = await fetch(weir.origin + path, {
      headers: { authorization: `Bearer ${token}` },
      redirect: 'manual',
    });
    if (response.status !== 200)
      throw new CommandError(`${path} was answered ${response.status}: ${(await response.text()).slice(0, 300)}`);
    await response.arrayBuffer();
  };
  for (const path of places) await look(path);
  for (let round = 1; round <= context.rounds; round++) {
    for (const path of places)
      for (let i = 0; i < LOOKS; i++) {
        context.signal.throwIfAborted();
        await time(path, () => look(path));
      }
    for (let i = 0; i < LOOKS; i++)
      await time('claim of 100, with its ack', async () => {
        const claimed = await client.claim({ max: 100, waitSeconds: 0 });
        if (claimed.length === 0) throw new CommandError('there is nothing to claim: store more events');
        await client.ack(claimed);
      });
    const slowest = [...timed]
      .map(([path, looks]) => [spreadOf(valuesOf(looks, 'ms')).median, path] as const)
      .sort(([a], [b]) => b - a)[0]!;
    context.say(`round ${round} of ${context.rounds}: slowest: ${slowest[1]}, ${formatNumber(slowest[0])} ms`);
  }
  const slow = await slowStatements(opened);
  for (const line of slow) context.say(line);
  return summarise(timed, slow.length, events, [webhook.id, agent.id]);
}

/** Stores webhooks, agents, events and deliveries. Deliveries of each webhook go to one agent; that of `webhookId` to `agentId`. */
async function fill(
  { say, signal }: BenchContext,
  { database }: BenchDatabase,
  { webhookId, agentId, events }: { webhookId: string; agentId: string; events: number },
): Promise<void> {
  const run = (text: string, values: unknown[] = []) => database.query({ text, values, timeoutMs: FILL_TIMEOUT_MS });
  await createDays(
    database,
    Array.from({ length: DAYS + 1 }, (_, day) => Date.now() - day * DAY_MS),
  );
  await run(
    `insert into webhooks (id, name) select gen_random_uuid(), 'volume ' || i from generate_series(2, ${WEBHOOKS}) i`,
  );
  await run(
    `insert into agents (id, name, lookup_id, secret_hash)
     select gen_random_uuid(), 'volume ' || i, lpad(i::text, 12, '0'), sha256(i::text::bytea) from generate_series(2, ${AGENTS}) i`,
  );
  // Subscriptions come later: they would create deliveries for each event.
  await run(
    `create table volume_pairs as
     select w.id as webhook_id, a.id as agent_id, w.place - 1 as place
     from (select id, row_number() over (order by id <> $1, id) as place from webhooks) w
     join (select id, row_number() over (order by id <> $2, id) as place from agents) a on a.place = (w.place - 1) % ${AGENTS} + 1`,
    [webhookId, agentId],
  );
  const untilMs = Date.now();
  for (let from = 0; from < events; from += PART) {
    signal.throwIfAborted();
    await run(
      `with stored as (
        insert into events (id, webhook_id, received_at, source_ip, headers, content_type, body, bytes)
        select (lpad(to_hex(ms), 12, '0') || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid,
          p.webhook_id, to_timestamp(ms / 1000.0), '192.0.2.1', 'accept: */*', 'application/json', convert_to('{"number":' || i || '}', 'UTF8'), 20
        from generate_series($1::bigint, $2::bigint) i
        cross join lateral (select ($3::float8 - (1 - i / $4::float8) * ${DAYS * DAY_MS})::bigint as ms) t
        join volume_pairs p on p.place = i % ${WEBHOOKS}
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
      ) s`,
      [from, Math.min(from + PART, events) - 1, untilMs, events, PENDING / events],
    );
    if ((from / PART) % 5 === 4) say(`${formatNumber(from + PART)} of ${formatNumber(events)} events stored`);
  }
  await run('insert into subscriptions (webhook_id, agent_id) select webhook_id, agent_id from volume_pairs');
  await run('drop table volume_pairs');
  await run('vacuum analyze events');
  await run('vacuum analyze deliveries');
  await run('checkpoint');
  await database.query({ text: `alter system set log_min_duration_statement = ${STATEMENT_MS}` });
  await database.query({ text: 'select pg_reload_conf()' });
}

/** Statements that Postgres logged as slow, without their texts beyond the first line. */
async function slowStatements({ directory }: BenchDatabase): Promise<string[]> {
  const log = await readFile(join(directory, 'db/postgres.log'), 'utf8');
  return log.split('\n').filter((line) => / duration: [\d.]+ ms /.test(line));
}

interface Look {
  ms: number;
  /** Processor time, also of what else ran in between. */
  postgresMs: number;
  weirMs: number;
}

function valuesOf(looks: readonly Look[], of: keyof Look): number[] {
  return looks.map((look) => look[of]);
}

function summarise(timed: ReadonlyMap<string, Look[]>, slow: number, events: number, ids: readonly string[]): Outcome {
  const shown = (path: string) => ids.reduce((text, id) => text.replace(id, '{id}'), path);
  const goal = ([path, looks]: [string, Look[]]): Goal => ({
    what: `${shown(path)}, p50:`,
    value: spreadOf(valuesOf(looks, 'ms')).median,
    unit: 'ms',
    below: PAGE_MS,
  });
  const columns = ['ms', 'postgresMs', 'weirMs'] as const;
  return {
    tables: [
      {
        header: ['', 'ms', 'CPU of Postgres, ms', 'CPU of Weir, ms'],
        rows: [...timed].map(([path, looks]) => [
          shown(path),
          ...columns.map((column) => formatSpread(valuesOf(looks, column))),
        ]),
      },
    ],
    measures: [...timed].map(([path, looks]) => ({ name: shown(path), unit: 'ms', values: valuesOf(looks, 'ms') })),
    ratios: [],
    goals: [...[...timed].map(goal), { what: `statements above ${STATEMENT_MS} ms:`, value: slow, unit: '', below: 1 }],
    notes: [
      `${formatNumber(events)} events and ${formatNumber(PENDING)} pending deliveries of ${DAYS} days, ${formatNumber(WEBHOOKS)} webhooks and ${AGENTS} agents; each load one after another, at the client.`,
    ],
    faults: [],
  };
}
