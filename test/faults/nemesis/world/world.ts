/** Everything that a run starts: Postgres, Redis, links, instances, webhooks and agents. */
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Overrides } from '../../../helpers/app.ts';
import { Link } from '../../../helpers/link.ts';
import { addPerson } from '../../../helpers/people.ts';
import { freePort } from '../../../helpers/ports.ts';
import { type RedisServer, startRedis } from '../../../helpers/redis.ts';
import { someKey } from '../../../helpers/settings.ts';
import { canMount, mountSmallDisk } from '../../../helpers/small-disk.ts';
import { makeDataDir } from '../../../helpers/weir.ts';
import type { Reply } from '../clients/http.ts';
import { type Agent, History, type Webhook } from '../history.ts';
import type { Configuration, Plan } from '../plan.ts';
import { compileDiskFault, diskFault } from './disk-fault.ts';
import { Instance } from './instance.ts';
import { clockBeforeMidnight, clockEnvironment, joined, RETENTION_DAYS, storeOldEvents } from './midnight.ts';
import { PostgresServer } from './postgres.ts';
import { createPrograms } from './programs.ts';
import { prepareReleases, type Sabotage } from './releases.ts';

/** Until the load begins. */
const STARTED_MS = 15_000;
const NO_LIMIT = 100_000_000;
const SPOOL_DISK = '24m';
/** A change waits for a frozen process, server or cell until the fault heals. */
export const CHANGE_MAX_MS = 60_000;
const CHANGE_TRIES_MS = 30_000;

interface ApiOptions {
  instance?: Instance;
  idempotencyKey?: string;
  /** Which reaches any of the processes. */
  ownConnection?: boolean;
}

export interface World {
  configuration: Configuration;
  history: History;
  folder: string;
  instances: Instance[];
  /** Home, then the cell. */
  servers: PostgresServer[];
  redis: RedisServer;
  /** Kills Redis and starts it at its port, or starts it when it is down. */
  restartRedis(): Promise<void>;
  links: Link[];
  /** Puts another build in the place of the one that runs: the next processes are of it. */
  upgrade(): Promise<void>;
  /** The next rotation of the key waits for its end. */
  isRotatingKey: boolean;
  webhooks: Webhook[];
  agents: Agent[];
  /** One request with the token of an administrator; rejects without a response. */
  api(method: string, path: string, body?: object, more?: ApiOptions): Promise<Reply>;
  /** Repeats a change until it has a response other than 503; null: it has none in time. */
  change(method: string, path: string, body?: object): Promise<Reply | null>;
  stop(): Promise<void>;
}

export async function startWorld(plan: Plan, sabotage?: Sabotage): Promise<World> {
  const undo: (() => unknown)[] = [];
  try {
    return await build(plan, sabotage, undo);
  } catch (error) {
    for (const step of undo.reverse()) await step();
    throw error;
  }
}

async function build(
  { configuration, seconds }: Plan,
  sabotage: Sabotage | undefined,
  undo: (() => unknown)[],
): Promise<World> {
  const history = new History();
  const folder = await mkdtemp(join(tmpdir(), 'weir-n-'));
  undo.push(() => rm(folder, { recursive: true, force: true }));
  await chmod(folder, 0o755);
  if (configuration.midnight) Object.assign(history, clockBeforeMidnight(STARTED_MS + (seconds * 1_000) / 2));
  const library = await compileDiskFault(folder);
  const faultOf = (name: string) => diskFault(library, join(folder, `${name}.disk-fault`));

  const releases = await prepareReleases(folder, sabotage);
  const servers: PostgresServer[] = [];
  for (const name of configuration.cell ? ['home', 'cell'] : ['home']) {
    const small = name === 'home' && configuration.smallDatabase;
    const disk = await faultOf(name);
    const server = await PostgresServer.create({
      name,
      folder: join(folder, name),
      disk,
      small,
      environment: joined(clockEnvironment(history.offsetMs), disk?.environment),
    });
    undo.push(() => server.remove());
    servers.push(server);
    if (name === 'home' && configuration.standby) await server.addStandby();
  }
  let redis = await startRedis();
  undo.push(() => redis.stop());
  const links: Link[] = [];
  const linkTo = async (port: number) => {
    const link = await Link.to(port);
    undo.push(() => link.close());
    links.push(link);
    return link;
  };

  const instances: Instance[] = [];
  for (let number = 0; number < configuration.instances; number++) {
    const [databaseLink, redisLink] = [await linkTo(servers[0]!.port), await linkTo(redis.port)];
    const disk = await faultOf(`weir-${number}`);
    const spoolDir = configuration.spool ? join(folder, `spool-${number}`) : null;
    if (spoolDir !== null) {
      await mkdir(spoolDir, { mode: 0o711 });
      if (configuration.smallSpool && canMount) undo.push(mountSmallDisk(spoolDir, SPOOL_DISK, 0o711));
    }
    const settings = {
      ...settingsOf(configuration),
      ...joined(clockEnvironment(history.offsetMs + number * configuration.skewMs), disk?.environment),
      DATABASE_URL: `postgres://weir@127.0.0.1:${databaseLink.port}/weir`,
      RATE_LIMIT_SHARED_URL: `redis://127.0.0.1:${redisLink.port}`,
      ...(spoolDir !== null && { INGEST_SPOOL_DIR: spoolDir }),
    } as Overrides;
    const parts = { number, settings, databaseLink, redisLink, disk, spoolDir, history, entry: releases.entry };
    const instance = new Instance({
      ...parts,
      dataDir: await makeDataDir(),
      port: await freePort(),
      conninfo: servers[0]!.conninfo(),
    });
    undo.push(() => instance.stop());
    await instance.start();
    instances.push(instance);
  }

  const url = `http://127.0.0.1:${instances[0]!.parts.port}`;
  const person = await addPerson(
    { database: servers[0]!.database, url, settings: { PUBLIC_URL: url } },
    'administrator',
  );
  const api: World['api'] = (
    method,
    path,
    body,
    { instance = instances[0]!, idempotencyKey, ownConnection = false } = {},
  ) => {
    const authorization = `Bearer ${person.token}`;
    const headers = {
      authorization,
      ...(body && { 'content-type': 'application/json' }),
      ...(idempotencyKey && { 'idempotency-key': idempotencyKey }),
    };
    const text = body && { body: JSON.stringify(body) };
    const limits = { timeoutMs: CHANGE_MAX_MS, ownConnection };
    return instance.client.send({ method, path: `/api/v1${path}`, headers, ...text, ...limits });
  };
  const world: World = {
    configuration,
    history,
    folder,
    instances,
    servers,
    links,
    webhooks: [],
    agents: [],
    get redis() {
      return redis;
    },
    async restartRedis() {
      await redis.stop();
      redis = await startRedis({ port: redis.port });
    },
    upgrade: releases.next,
    isRotatingKey: false,
    api,
    change: (method, path, body) => change(world, method, path, body),
    async stop() {
      for (const step of undo.splice(0).reverse()) await step();
    },
  };
  await createPrograms(world, linkTo);
  if (configuration.midnight) await storeOldEvents(world);
  return world;
}

function settingsOf({ workers, attemptsMax, commitTimeoutMs, midnight }: Configuration): Overrides {
  return {
    SECRETS_KEY: someKey,
    RATE_LIMIT_BACKEND: 'shared',
    RATE_LIMIT_REQUIRED: 'false',
    RATE_LIMIT_WAIT_SECONDS: 2,
    RATE_LIMIT_INGEST_MAX: NO_LIMIT,
    RATE_LIMIT_AGENT_AUTH_MAX: NO_LIMIT,
    RATE_LIMIT_ANONYMOUS_MAX: NO_LIMIT,
    WORKERS: workers,
    DELIVERY_MAX_ATTEMPTS: attemptsMax,
    COMMIT_TIMEOUT_MS: commitTimeoutMs,
    PROCESS_SILENT_SECONDS: 8,
    HMAC_TIMEOUT_MS: 5_000,
    FILTER_TIMEOUT_MS: 30_000,
    DRAIN_SECONDS: 5,
    ...(midnight && { RETENTION_DAYS }),
  };
}

/** Each try ends with a response, or with its connection: a try without either is a violation. */
async function change(world: World, method: string, path: string, body?: object): Promise<Reply | null> {
  const idempotencyKey = `c${Math.random()}`;
  const endAt = Date.now() + CHANGE_TRIES_MS;
  for (;;) {
    const instance = world.instances[Math.floor(Math.random() * world.instances.length)]!;
    const sentAt = Date.now();
    const reply = await world.api(method, path, body, { instance, idempotencyKey }).catch(() => null);
    if (reply === null && Date.now() - sentAt >= CHANGE_MAX_MS)
      world.history.observe('a change without a response', `${method} ${path} at instance ${instance.parts.number}`);
    if (reply !== null && reply.status >= 500 && reply.status !== 503)
      world.history.observe('a status that is not documented', `${reply.status} for ${method} ${path}: ${reply.text}`);
    if (reply !== null && reply.status < 500) return reply;
    if (Date.now() > endAt) return null;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}
