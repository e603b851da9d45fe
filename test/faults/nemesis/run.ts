/** One run of the nemesis: load and faults, then healing, then every delivery is settled, then the checker. */
import { setTimeout as delay } from 'node:timers/promises';
import { until } from '../../helpers/wait.ts';
import { check, groups, type Seen } from './checker.ts';
import { startConsumers } from './clients/agents.ts';
import { sendOnce, startSenders } from './clients/senders.ts';
import { command } from './faults/operations.ts';
import { faults } from './faults.ts';
import type { Stored, Violation, Webhook } from './history.ts';
import { Draw, type Plan, type PlannedFault } from './plan.ts';
import { readStored } from './stored.ts';
import type { Instance } from './world/instance.ts';
import type { Sabotage } from './world/releases.ts';
import { startWorld, type World } from './world/world.ts';

/** After the last fault has healed. */
const RECOVERY_MAX_MS = 60_000;
/** Deliveries and jobs are drained while their number falls within this time: an agent that may hold one lease needs minutes. */
const DRAIN_STILL_MS = 60_000;
const DRAIN_MAX_MS = 600_000;
/** A process that a fault left without a way to make changes keeps its connections: each gets a request. */
const CHANGES_TRIED = 12;

export interface Outcome {
  violations: Violation[];
  /** What the run did, for a table of results. */
  summary: Record<string, unknown>;
  /** The log of the run. */
  lines: string[];
  seen: Seen;
}

export async function runPlan(plan: Plan, sabotage?: Sabotage): Promise<Outcome> {
  const world = await startWorld(plan, sabotage);
  const { history } = world;
  let stored: Stored;
  const counts: Record<string, number> = {};
  const consumers = startConsumers(world);
  try {
    const senders = startSenders(world);
    history.note(JSON.stringify(plan.configuration));
    const sequences = [...groups(plan.faults, ({ sequence }) => String(sequence)).values()];
    const endMs = plan.seconds * 1_000;
    await Promise.all([delay(endMs), ...sequences.map((faults) => runSequence(world, faults, { endMs, counts }))]);
    history.note('every fault has healed');
    await senders.stop();
    await recover(world);
    consumers.drain();
    await drain(world);
    if (!(await command(world, 'audit', 'verify'))) history.observe('the audit log is whole', 'see the log');
  } finally {
    await consumers.stop();
    stored = await readStored(world.servers.map((server) => server.conninfo()))
      .finally(() => stopInstances(world))
      .finally(() => world.stop());
  }
  const { configuration, webhooks, agents } = world;
  const seen = { configuration, history, webhooks, agents, stored };
  const violations = check(seen);
  const statuses: Record<string, number> = {};
  for (const { status } of history.requests) statuses[status ?? 'none'] = (statuses[status ?? 'none'] ?? 0) + 1;
  const summary = {
    seed: plan.seed,
    seconds: plan.seconds,
    configuration,
    faults: Object.values(counts).reduce((sum, count) => sum + count, 0),
    requests: statuses,
    events: stored.events.length,
    deliveries: stored.deliveries.length,
    leases: history.leases.length + history.handled.length,
    violations: violations.length,
    kinds: counts,
  };
  return { violations, summary, lines: history.lines, seen };
}

/** Starts each fault at its time, or when the one before has healed, until the end of the load. */
async function runSequence(
  world: World,
  planned: readonly PlannedFault[],
  { endMs, counts }: { endMs: number; counts: Record<string, number> },
): Promise<void> {
  const beganMs = performance.now();
  for (const { name, atMs, forMs, seed } of planned) {
    await delay(beganMs + atMs - performance.now());
    if (performance.now() - beganMs > endMs) return;
    const { history } = world;
    try {
      const started = await faults[name].start(world, new Draw(seed));
      history.note(`${name}: ${started?.what ?? 'nothing to do'}`);
      if (started === null) continue;
      counts[name] = (counts[name] ?? 0) + 1;
      await delay(forMs);
      await started.heal?.();
    } catch (error) {
      history.observe('the nemesis itself works', `${name}: ${(error as Error).stack}`);
    }
  }
}

/** Ready, events of each webhook are stored, and each process makes changes. */
async function recover(world: World): Promise<void> {
  const { history, instances, webhooks, change } = world;
  const healedAt = Date.now();
  const within = async (what: string, condition: () => Promise<unknown>) => {
    const left = Math.max(1_000, healedAt + RECOVERY_MAX_MS - Date.now());
    const done = await until(condition, { timeoutMs: left }).catch(() => null);
    if (done === null) history.observe('Weir recovers', `not within ${RECOVERY_MAX_MS} ms: ${what}`);
  };
  for (const { id } of webhooks) await change('PATCH', `/webhooks/${id}`, { enabled: true });
  for (const instance of instances) {
    const { number } = instance.parts;
    await within(
      `readyz of instance ${number}`,
      async () => (await instance.ready().catch(() => null))?.status === 200,
    );
    await Promise.all(
      webhooks.map((webhook) => within(`202 for ${webhook.name}`, () => isAccepted(world, webhook, instance))),
    );
    await within(`changes at instance ${number}`, () => changesAt(world, instance));
  }
  await within('every spool is drained', () => spoolsAreEmpty(world));
  history.note(`recovered in ${Date.now() - healedAt} ms`);
}

async function spoolsAreEmpty({ instances }: World): Promise<boolean> {
  const events = await Promise.all(instances.map(({ weir }) => weir.metric('weir_spool_events').catch(() => -1)));
  return events.every((count) => count === 0);
}

let probes = 0;

async function isAccepted(world: World, webhook: Webhook, instance: Instance): Promise<boolean> {
  return (await sendOnce(world, webhook, `p${process.pid}-${probes++}`, { instance })).status === 202;
}

async function changesAt({ api, webhooks }: World, instance: Instance): Promise<boolean> {
  const path = `/webhooks/${webhooks[0]!.id}`;
  const replies = await Promise.all(
    Array.from({ length: CHANGES_TRIED }, (_, number) =>
      api('PATCH', path, { description: `change ${number}` }, { instance, ownConnection: true }),
    ),
  );
  return replies.every(({ status }) => status === 200);
}

/** Waits until every delivery is finished, every job has ended and every event of the spools is stored. */
async function drain(world: World): Promise<void> {
  const { history, servers, agents, api } = world;
  const lost = agents.filter((agent) => agent.lost).map(({ id }) => id);
  const left = `select count(*)::int from deliveries_live where not agent_id = any($1::uuid[])`;
  const endJobs = async () => {
    for (const job of history.jobs.filter(({ id, state }) => id !== null && state === null)) {
      const { status, body } = await api('GET', `/jobs/${job.id}`).catch(() => ({ status: 0, body: null }));
      if (status === 200 && ['done', 'cancelled', 'failed'].includes(body.state)) job.state = body.state;
    }
  };
  let least = Number.POSITIVE_INFINITY;
  let fellAt = Date.now();
  const isDone = async () => {
    await endJobs();
    const jobs = history.jobs.filter(({ id, state }) => id !== null && state === null).length;
    let unfinished = jobs;
    for (const { database } of servers)
      unfinished += (await database.query<{ count: number }>({ text: left, values: [`{${lost}}`] }))[0]!.count;
    if (unfinished < least) [least, fellAt] = [unfinished, Date.now()];
    // A job makes deliveries: then their number says nothing.
    else if (jobs === 0 && Date.now() - fellAt > DRAIN_STILL_MS) throw new Error('nothing is finished any more');
    return unfinished === 0 && (await spoolsAreEmpty(world));
  };
  const beganAt = Date.now();
  // What is not finished in time is a violation of its invariant.
  const done = await until(isDone, { timeoutMs: DRAIN_MAX_MS }).catch(() => null);
  const tookMs = Date.now() - beganAt;
  history.note(done === null ? `not drained in ${tookMs} ms: ${await whatIsLeft(world)}` : `drained in ${tookMs} ms`);
}

/** Unfinished deliveries by agent, and the sessions of Postgres that wait. */
async function whatIsLeft({ servers, agents }: World): Promise<string> {
  const deliveries = 'select agent_id as id, state, count(*)::int from deliveries_live group by 1, 2';
  const sessions = `select state, wait_event, now() - xact_start as since, left(query, 80) as query from pg_stat_activity
    where xact_start < now() - interval '5 seconds'`;
  const parts = servers.map(async ({ name, database }) => {
    const rows = await database.query<{ id: string }>({ text: deliveries }).catch(() => []);
    const named = rows.map((row) => ({ ...row, id: agents.find(({ id }) => id === row.id)?.name }));
    return `${name}: ${JSON.stringify(named)} ${JSON.stringify(await database.query({ text: sessions }).catch(() => []))}`;
  });
  return (await Promise.all(parts)).join('; ');
}

/** Lines of a log that a fault does not explain. */
const ODD =
  /"event":"(crash|request_failed|crash_loop|spool_damaged|spool_event_refused|stop_failed)"|unhandledRejection|uncaughtException|\\n\s+at |TypeError|ReferenceError|RangeError/;

async function stopInstances({ instances, history }: World): Promise<void> {
  await Promise.all(instances.map((instance) => instance.stop()));
  for (const { earlierLines, weir } of instances)
    for (const line of [...earlierLines, ...weir.lines, ...weir.stderr().split('\n')].filter((each) => ODD.test(each)))
      history.observe('the log has no error of the program', line);
}
