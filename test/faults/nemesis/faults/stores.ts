/** Faults of Postgres, Redis, the ways to them, and disks. */
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { hold } from '../../../helpers/hold.ts';
import type { LinkMode } from '../../../helpers/link.ts';
import { kill } from '../../../helpers/weir.ts';
import { frozen } from '../../kinds.ts';
import type { Fault } from '../faults.ts';
import type { Draw } from '../plan.ts';
import type { DiskFault } from '../world/disk-fault.ts';
import type { PostgresServer } from '../world/postgres.ts';
import type { World } from '../world/world.ts';

const BLOCK = Buffer.alloc(65_536);
/** Ends before it heals by itself. */
const LOCKED_TABLES = ['events', 'deliveries', 'dedupe_keys', 'webhooks', 'agents'];

/** A server that runs; null: the drawn one is down. */
function upServer({ servers }: World, draw: Draw): PostgresServer | null {
  const server = draw.of(servers);
  return server.isUp ? server : null;
}

const ended = (signal: NodeJS.Signals) => async (world: World, draw: Draw) => {
  const server = upServer(world, draw);
  if (server === null) return null;
  await server.end(signal);
  return { what: `${signal} to ${server.name}`, heal: () => server.start() };
};

const linked = (mode: LinkMode, resets: number) => async (world: World, draw: Draw) => {
  const link = draw.of(world.links);
  link.set(mode);
  const heal = () => {
    if (draw.chance(resets)) link.reset();
    link.set('passes');
  };
  return { what: `link ${world.links.indexOf(link)}`, heal };
};

/** Postgres ends when it cannot flush its log, and is started again. */
async function slowOrFailing(disk: DiskFault | null, text: string, what: string) {
  await disk?.set(text);
  return disk && { what: `${what}: ${text}`, heal: () => disk.set('') };
}

/** Writes until the disk has no space. */
async function fill(folder: string) {
  const path = join(folder, 'ballast');
  const file = await open(path, 'w');
  let blocks = 0;
  while (
    await file.write(BLOCK).then(
      () => true,
      () => false,
    )
  )
    blocks++;
  await file.close();
  return { what: `${blocks} blocks of 64 KiB`, heal: () => rm(path, { force: true }) };
}

export const storeFaults = {
  'sessions of Postgres end': {
    weight: 5,
    async start(world, draw) {
      const server = upServer(world, draw);
      const share = draw.of([0.2, 0.5, 1]);
      const text = `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = 'weir' and application_name <> 'nemesis' and random() < ${share}`;
      const rows = await server?.database.query({ text }).catch(() => null);
      return rows ? { what: `${rows.length} of ${server!.name}` } : null;
    },
  },
  'kill -9 of a session of Postgres': {
    weight: 3,
    async start(world, draw) {
      const server = upServer(world, draw);
      const [, ...sessions] = (await server?.pids()) ?? [];
      if (sessions.length === 0) return null;
      kill(draw.of(sessions), 'SIGKILL');
      return { what: server!.name };
    },
  },
  'Postgres ends at once': { weight: 6, forMs: [0, 9_000], start: ended('SIGQUIT') },
  'kill -9 of Postgres': { weight: 2, forMs: [0, 3_000], start: ended('SIGKILL') },
  'Postgres is stopped': { weight: 2, forMs: [0, 4_000], start: ended('SIGINT') },
  'Postgres is frozen': {
    weight: 4,
    forMs: [500, 9_000],
    async start(world, draw) {
      const server = upServer(world, draw);
      return server && { what: server.name, heal: frozen(await server.pids()) };
    },
  },
  'the standby is promoted': {
    weight: 4,
    forMs: [0, 3_000],
    needs: ({ standby }) => standby,
    async start({ servers }) {
      const promoted = await servers[0]!.promote();
      return promoted ? { what: '', heal: () => servers[0]!.addStandby() } : null;
    },
  },
  'the standby is frozen': {
    weight: 2,
    forMs: [500, 6_000],
    needs: ({ standby }) => standby,
    async start({ servers }) {
      const pids = await servers[0]!.pids('standby');
      return pids.length > 0 ? { what: '', heal: frozen(pids) } : null;
    },
  },
  'a table is locked': {
    weight: 4,
    forMs: [500, 6_000],
    async start(world, draw) {
      const server = upServer(world, draw);
      const table = draw.of(LOCKED_TABLES);
      const locked = server && hold(server.conninfo(), `lock table ${table} in access exclusive mode`);
      const release = await locked?.catch(() => null);
      return release ? { what: `${table} of ${server!.name}`, heal: release } : null;
    },
  },
  'the disk of Postgres is slow': {
    weight: 3,
    forMs: [2_000, 8_000],
    async start({ servers }, draw) {
      const server = draw.of(servers);
      const text = `slow ${draw.of([20, 100, 400, 1_500])}`;
      return slowOrFailing(server.parts.disk, text, server.name);
    },
  },
  'the disk of Postgres fails': {
    weight: 2,
    forMs: [300, 3_000],
    async start(world, draw) {
      const server = upServer(world, draw);
      return server && slowOrFailing(server.parts.disk, 'fail 100', server.name);
    },
  },
  'the disk of Postgres is full': {
    weight: 4,
    forMs: [2_000, 9_000],
    needs: ({ smallDatabase }) => smallDatabase,
    async start({ servers }) {
      const server = servers[0]!;
      if (!server.isUp) return null;
      return fill(server.parts.folder);
    },
  },
  'kill -9 of Redis': {
    weight: 2,
    forMs: [0, 5_000],
    async start(world) {
      kill(world.redis.pid, 'SIGKILL');
      return { what: '', heal: () => world.restartRedis() };
    },
  },
  'Redis is frozen': {
    weight: 2,
    forMs: [500, 6_000],
    async start({ redis }) {
      redis.pause();
      return { what: '', heal: () => redis.resume() };
    },
  },
  'Redis loses its data': {
    weight: 1,
    async start({ redis }) {
      await redis.cli('flushall').catch(() => {});
      return { what: '' };
    },
  },
  'a link is slow': {
    weight: 2,
    forMs: [1_000, 6_000],
    async start({ links }, draw) {
      const link = draw.of(links);
      const delayMs = draw.of([20, 100, 400]);
      link.set('passes', delayMs);
      return { what: `link ${links.indexOf(link)}: ${delayMs} ms`, heal: () => link.set('passes') };
    },
  },
  'a link is silent': { weight: 5, forMs: [500, 9_000], start: linked('silent', 0.6) },
  'a link loses answers': { weight: 6, forMs: [50, 6_000], start: linked('answers are lost', 0.8) },
  'connections of a link are reset': {
    weight: 4,
    async start({ links }, draw) {
      const link = draw.of(links);
      const times = draw.between(1, 5);
      for (let turn = 0; turn < times; turn++) {
        link.reset();
        await delay(draw.between(20, 700));
      }
      return { what: `link ${links.indexOf(link)}, ${times} times` };
    },
  },
  'the disk of the spool is full': {
    weight: 4,
    forMs: [1_000, 8_000],
    needs: ({ smallSpool }) => smallSpool,
    start: (world, draw) => fill(draw.of(world.instances).parts.spoolDir!),
  },
  'the disk of the spool is slow or fails': {
    weight: 4,
    forMs: [500, 6_000],
    needs: ({ spool }) => spool,
    async start({ instances }, draw) {
      const { disk, number } = draw.of(instances).parts;
      const text = draw.of(['fail 100', 'fail 30', 'slow 300', 'slow 1500']);
      return slowOrFailing(disk, text, `instance ${number}`);
    },
  },
} satisfies Record<string, Fault>;
