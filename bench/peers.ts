/**
 * Scenario `peers`: Weir beside what a team would build instead, from packages that only this scenario installs.
 *
 *     receiving, each round:  Weir 1 | Weir 2 | Weir 2 with an agent | bare | Fastify with INSERT, graphile-worker, pg-boss, BullMQ
 *     consuming, each round:  1, 10, 100 at a time; one consumer, four:  each queue filled, vacuumed, drained with an empty handler
 *     latency, each round:    100 jobs a second, from the commit to the handler
 *
 * Bodies of 1 KiB, everything on the disk before the answer: fsync on, and appendfsync always. bench/peers/queues states the settings of each.
 */

import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { benchBody, signedRequest } from '../server/operate/load/environment.ts';
import { renewDeliveries, storeEvents } from './lib/backlog.ts';
import { createPast, openBenchDatabase, pgOptions } from './lib/database.ts';
import type { BenchContext, BenchOutcome, Scenario } from './lib/outcome.ts';
import { projectRoot } from './lib/paths.ts';
import { BODY_BYTES, measureConsumers, STORED } from './lib/peer-consumers.ts';
import { measureReceivers, startPeerReceiver, weirReceivers } from './lib/peer-receivers.ts';
import { startRedis } from './lib/redis.ts';
import { startWeir } from './lib/weir.ts';
import { requireWrk, writeScript } from './lib/wrk.ts';
import type { QueueName } from './peers/queues/open.ts';

/** The default of RETENTION_DAYS: Weir's tables have these partitions after a month. */
const HISTORY_DAYS = 30;
const POSTGRES_QUEUES: readonly QueueName[] = ['graphile-worker', 'graphile-worker, batches', 'pg-boss'];
const PEERS = ['fastify', 'graphile-worker', 'pg-boss', 'bullmq'];
const WEIR_QUEUES: readonly QueueName[] = ['agent.run', 'plain HTTP', 'MCP'];

export const peers: Scenario = {
  name: 'peers',
  summary: 'Weir beside Fastify with an INSERT, graphile-worker, pg-boss and BullMQ: receiving and consuming',
  defaults: { rounds: 3, seconds: 2 },
  run,
};

async function run(context: BenchContext): Promise<BenchOutcome> {
  requireWrk();
  const packages = installPeers(context.say);
  const bench = await openBenchDatabase(context);
  await createPast(bench.database, HISTORY_DAYS);
  const redis = await startRedis(context, bench.directory);
  const signed = signedRequest(bench.secret, benchBody(BODY_BYTES));
  writeScript(join(bench.directory, 'request.lua'), signed);

  const one = await startWeir({ ...bench, processes: 1 });
  context.undo(() => one.stop());
  const two = await startWeir({ ...bench, processes: 2 });
  context.undo(() => two.stop());
  const webhook = await one.addWebhook();
  const agent = await one.addAgent([webhook.id]);
  const order = {
    database: pgOptions(bench.conninfo),
    redisPort: redis?.port ?? 0,
    queue: 'jobs',
    weir: { origin: one.origin, credential: agent.credential, url: webhook.url, ...signed },
  };
  const hasPackages = packages.reason === null;
  const queues = [
    ...(hasPackages ? POSTGRES_QUEUES : []),
    ...(hasPackages && redis !== null ? (['BullMQ'] as const) : []),
    ...WEIR_QUEUES,
  ];

  const receiving = { bench, redis, order };
  const receivers = await weirReceivers(context, receiving, [one, two], webhook);
  if (hasPackages) {
    const table = 'peer_events';
    await bench.database.query({ text: `create table ${table} (like events including all)` });
    const insert = { ...receiving, order: { ...order, queue: table } };
    receivers.push(await startPeerReceiver(context, insert, 'insert'));
    for (const queue of queues)
      if (!WEIR_QUEUES.includes(queue) && queue !== 'graphile-worker, batches')
        receivers.push(await startPeerReceiver(context, receiving, queue));
  }
  const received = await measureReceivers(context, bench, receivers);

  const backlog = { webhookId: webhook.id, agentId: agent.id, rows: STORED, bodyBytes: BODY_BYTES };
  const renewWeir = () => renewDeliveries(bench.database, backlog);
  const fillWeir = async () => {
    await bench.database.query({ text: 'truncate events, deliveries' });
    await storeEvents(bench.database, backlog);
  };
  const consuming = { ...receiving, weirPids: one.processes, fillWeir, renewWeir };
  const consumed = await measureConsumers(context, consuming, queues);
  const versions = PEERS.map((name) => `${name} ${packages.version(name)}`);
  return {
    tables: [received.table, ...consumed.tables],
    measures: [...received.measures, ...consumed.measures],
    ratios: [...received.ratios, ...consumed.ratios],
    goals: [...received.goals, ...consumed.goals],
    notes: [
      packages.reason === null ? `Versions: ${versions.join(', ')}.` : `All peers are left out: ${packages.reason}.`,
      redis === null
        ? 'BullMQ is left out: redis-server is not installed.'
        : `Redis ${redis.version}, appendfsync always.`,
      'Load generator (wrk), contestants and stores share the cores. Processor time is user and system time of all threads, a request or a job.',
      `A window of consuming begins ${STORED.toLocaleString('en-GB')} jobs of 1 KiB full, after half a second of warm-up. Consumers are processes of their own; Weir has one serving process.`,
      'graphile-worker: by itself, and with a local queue of 500 and completions in batches. pg-boss: batches of 100 that are completed as a whole, whatever the concurrency; by default it fetches one job every two seconds, which is not measured. BullMQ: completed jobs are removed.',
      'plain HTTP: one loop a consumer, which claims as many as its concurrency and acknowledges them with the next claim. MCP: loops of 10.',
    ],
    faults: received.faults,
  };
}

const FILES = ['package.json', 'package-lock.json'];

/** Installs the peers beside the built contestants, unless they are there from the same lock file. `reason` is null unless that failed. */
function installPeers(say: BenchContext['say']): { version: (name: string) => string; reason: string | null } {
  const source = join(projectRoot, 'bench/peers');
  // The chunks that the built contestants share are in dist/bench too.
  const folder = join(projectRoot, 'dist/bench');
  const lock = readFileSync(join(source, 'package-lock.json'), 'utf8');
  const { packages } = JSON.parse(lock) as { packages: Record<string, { version: string }> };
  const version = (name: string) => packages[`node_modules/${name}`]!.version;
  const copied = join(folder, 'node_modules/.lock-of-peers.json');
  if (existsSync(copied) && readFileSync(copied, 'utf8') === lock) return { version, reason: null };
  say('installing the packages of bench/peers');
  for (const file of FILES) copyFileSync(join(source, file), join(folder, file));
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund'];
  const { error, status, stderr } = spawnSync('npm', args, { cwd: folder, encoding: 'utf8' });
  const failure = error?.message ?? stderr.trim().split('\n')[0];
  if (status === 0) copyFileSync(join(source, 'package-lock.json'), copied);
  return { version, reason: status === 0 ? null : `npm ci in bench/peers failed: ${failure}` };
}
