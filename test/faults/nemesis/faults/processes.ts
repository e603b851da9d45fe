/** Faults of Weir's own processes. */
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { kill } from '../../../helpers/weir.ts';
import { frozen } from '../../kinds.ts';
import type { Fault } from '../faults.ts';
import type { Draw } from '../plan.ts';
import type { Instance } from '../world/instance.ts';
import type { World } from '../world/world.ts';

const run = promisify(execFile);

/** An instance that runs; null: the drawn one is down. */
function upInstance({ instances }: World, draw: Draw): Instance | null {
  const instance = draw.of(instances);
  return instance.isUp ? instance : null;
}

/** A signal to one of the serving processes. */
const signalled = (signal: NodeJS.Signals) => async (world: World, draw: Draw) => {
  const instance = upInstance(world, draw);
  const pids = (await instance?.weir.servingPids()) ?? [];
  if (pids.length === 0) return null;
  const pid = draw.of(pids);
  kill(pid, signal);
  return { what: `${signal} to process ${pid} of ${pids.length}`, heal: () => kill(pid, 'SIGCONT') };
};

/** Signals that the primary may be sent after its start, when it has all handlers. */
const toPrimary = (signals: readonly NodeJS.Signals[], pauseMs: number) => async (world: World, draw: Draw) => {
  const instance = upInstance(world, draw);
  if (instance === null) return null;
  for (const signal of signals) {
    if (instance.isUp) instance.weir.signal(signal);
    await delay(draw.between(0, pauseMs));
  }
  return { what: `${signals} to instance ${instance.parts.number}` };
};

const killed = (all: boolean) => async (world: World, draw: Draw) => {
  const instance = upInstance(world, draw);
  if (instance === null) return null;
  await instance.end('SIGKILL', all);
  // Processes that go on still write to the spool.
  if (all && draw.chance(0.6)) await instance.tearSpool(draw);
  return { what: `instance ${instance.parts.number}`, heal: () => instance.start() };
};

async function setDescriptors(pid: number, limit: string): Promise<void> {
  await run('prlimit', ['--pid', String(pid), `--nofile=${limit}:`]).catch(() => {});
}

export const processFaults = {
  'kill -9 of a process': { weight: 6, start: signalled('SIGKILL') },
  'TERM to a process': { weight: 2, start: signalled('SIGTERM') },
  'a process is frozen': { weight: 4, forMs: [500, 11_000], start: signalled('SIGSTOP') },
  'kill -9 of the primary': { weight: 3, forMs: [0, 3_000], start: killed(false) },
  'kill -9 of all processes': { weight: 3, forMs: [0, 2_000], start: killed(true) },
  'stop and start': {
    weight: 2,
    async start(world, draw) {
      const instance = upInstance(world, draw);
      if (instance === null) return null;
      await instance.end('SIGTERM');
      return { what: `instance ${instance.parts.number}`, heal: () => instance.start() };
    },
  },
  'rolling restart': { weight: 3, start: toPrimary(['SIGHUP'], 0) },
  'more processes, then fewer': { weight: 2, start: toPrimary(['SIGTTIN', 'SIGTTOU'], 3_000) },
  'the primary is frozen': {
    weight: 2,
    forMs: [500, 9_000],
    async start(world, draw) {
      const instance = upInstance(world, draw);
      instance?.weir.signal('SIGSTOP');
      return instance && { what: `instance ${instance.parts.number}`, heal: () => instance.weir.signal('SIGCONT') };
    },
  },
  'an instance is frozen': {
    weight: 4,
    forMs: [1_000, 15_000],
    async start(world, draw) {
      const instance = upInstance(world, draw);
      if (instance === null) return null;
      const pids = [instance.weir.pid, ...(await instance.weir.servingPids())];
      return { what: `instance ${instance.parts.number}`, heal: frozen(pids) };
    },
  },
  'no file descriptors': {
    weight: 2,
    forMs: [1_000, 7_000],
    async start(world, draw) {
      const pids = (await upInstance(world, draw)?.weir.servingPids()) ?? [];
      if (pids.length === 0) return null;
      const pid = draw.of(pids);
      const open = await readdir(`/proc/${pid}/fd`).catch(() => []);
      const limit = Math.max(8, open.length + draw.between(-10, 4));
      await setDescriptors(pid, String(limit));
      const heal = async () => {
        const { stdout } = await run('prlimit', ['--pid', String(pid), '--nofile', '-o', 'HARD', '--noheadings']).catch(
          () => ({ stdout: '' }),
        );
        if (stdout !== '') await setDescriptors(pid, stdout.trim());
      };
      return { what: `process ${pid} has ${open.length} and may have ${limit}`, heal };
    },
  },
} satisfies Record<string, Fault>;
