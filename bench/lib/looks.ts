/** Times pages, API calls and claims one after another, and a rest: wall time, and processor time of Weir and Postgres. */
import { setTimeout as delay } from 'node:timers/promises';
import { CommandError } from '../../server/base/command/io.ts';
import { readProcessor, timeBetween } from '../../server/operate/load/processor.ts';
import type { Database } from '../../server/store/connect/pool.ts';
import type { AgentClient } from './agent.ts';
import { type BenchDatabase, postgresPids } from './database.ts';
import { below, type Table, tabulate } from './outcome.ts';
import { formatNumber, spreadOf } from './stats.ts';
import type { RunningWeir } from './weir.ts';
import { ownUs, totalUs } from './window.ts';

/** Number of times that each page is loaded in a round. */
export const LOOKS = 5;

interface Looked {
  ms: number;
  /** Processor time, also of what else ran in between. */
  postgresMs: number;
  weirMs: number;
}

/** What was timed, by name, in the order of the first time. */
export class Looks {
  readonly timed = new Map<string, Looked[]>();
  readonly #database: Database;
  readonly #pids: readonly number[];

  /** @param pids processes of Weir whose time counts */
  constructor(database: Database, pids: readonly number[]) {
    this.#database = database;
    this.#pids = pids;
  }

  /** Runs `work` and notes its time. */
  async time(name: string, work: () => Promise<unknown>): Promise<void> {
    const before = await this.#read();
    const startMs = performance.now();
    await work();
    const ms = performance.now() - startMs;
    const us = timeBetween(before, await this.#read());
    const look = { ms, postgresMs: us.postgres / 1000, weirMs: ownUs(us) / 1000 };
    this.timed.set(name, [...(this.timed.get(name) ?? []), look]);
  }

  /** Times each page or API call LOOKS times, one after another. */
  async timePlaces(places: readonly string[], look: Look, signal: AbortSignal): Promise<void> {
    for (const path of places)
      for (let i = 0; i < LOOKS; i++) {
        signal.throwIfAborted();
        await this.time(path, () => look(path));
      }
  }

  /** Times claims with their acknowledgement. Rejects with CommandError when there is nothing to claim. */
  async timeClaims(name: string, client: AgentClient, times: number): Promise<void> {
    for (let i = 0; i < times; i++)
      await this.time(name, async () => {
        const claimed = await client.claim({ max: 100, waitSeconds: 0 });
        if (claimed.length === 0) throw new CommandError(`${name}: there is nothing to claim: store more events`);
        await client.ack(claimed);
      });
  }

  /** The longest median of wall time, and its name. */
  get slowest(): readonly [ms: number, name: string] {
    return [...this.timed]
      .map(([name, looks]) => [spreadOf(valuesOf(looks, 'ms')).median, name] as const)
      .sort(([a], [b]) => b - a)[0]!;
  }

  async #read() {
    return readProcessor(this.#pids, await postgresPids(this.#database));
  }
}

function valuesOf(looks: readonly Looked[], of: keyof Looked): number[] {
  return looks.map((look) => look[of]);
}

const ID = /[0-9a-f]{8}-[0-9a-f-]{27}/g;

/** The table, measures and goals of what was timed; ids are left out. @param belowMs goal of the median of the wall time */
export function reportLooks(timed: ReadonlyMap<string, Looked[]>, belowMs: number) {
  const all = [...timed].map(([name, looks]) => ({ name: name.replace(ID, '{id}'), looks }));
  const { table, measures } = tabulate('', all, [
    ['ms', ['', 'ms'], ({ looks }) => valuesOf(looks, 'ms')],
    ['CPU of Postgres, ms', null, ({ looks }) => valuesOf(looks, 'postgresMs')],
    ['CPU of Weir, ms', null, ({ looks }) => valuesOf(looks, 'weirMs')],
  ]);
  const goals = all.map(({ name, looks }) => below(`${name}, p50:`, valuesOf(looks, 'ms'), belowMs, 'ms'));
  return { table, measures, goals };
}

type Look = (path: string) => Promise<string>;

/** Returns a function that loads a page or an API call. It rejects with CommandError when the answer is not 200. */
export function lookWith(origin: string, token: string): Look {
  return async (path) => {
    const response = await fetch(origin + path, { headers: { authorization: `Bearer ${token}` }, redirect: 'manual' });
    const text = await response.text();
    if (response.status !== 200)
      throw new CommandError(`${path} was answered ${response.status}: ${text.slice(0, 300)}`);
    return text;
  };
}

/** Pages and API calls that people open. */
export function placesOf(webhookId: string, agentIds: readonly string[]): string[] {
  const calls = ['issues', `webhooks/${webhookId}/requests`, 'agents/activity', 'deliveries/counts', 'deliveries/dead'];
  const lists = ['history', 'history/webhooks', 'history/latency', 'webhooks/usage', 'webhooks/activity', 'alerts'];
  return [
    ...['/', '/events', '/deliveries', '/deliveries?state=pending', '/deliveries?state=dead', '/webhooks', '/agents'],
    ...[`/webhooks?cursor=${webhookId}`, '/webhooks?q=none+has+it', '/agents?q=none+has+it', '/webhooks/latency'],
    ...[`/webhooks/${webhookId}`, `/webhooks/${webhookId}/settings`, '/rejections', '/issues'],
    `/deliveries?webhook_id=${webhookId}`,
    ...agentIds.flatMap((id) => [`/agents/${id}`, `/deliveries?agent_id=${id}`]),
    ...[...calls, ...lists, 'webhooks?limit=200', 'agents?limit=200', 'events'].map((path) => `/api/v1/${path}`),
  ];
}

/** Processor time of servers without requests, in milliseconds of a core. @param ms length of the measurement */
export async function measureRest(
  servers: readonly { name: string; bench: BenchDatabase; weir: RunningWeir }[],
  ms: number,
  signal: AbortSignal,
): Promise<Table> {
  const read = () =>
    Promise.all(
      servers.map(async ({ bench, weir }) => [
        readProcessor(weir.processes, []),
        readProcessor([weir.pid], []),
        readProcessor([], await postgresPids(bench.database)),
      ]),
    );
  const before = await read();
  await delay(ms, undefined, { signal });
  const after = await read();
  return {
    header: [`${ms / 1_000} s without requests, CPU in ms`, 'process', 'primary', 'Postgres'],
    rows: servers.map(({ name }, i) => [
      name,
      ...before[i]!.map((from, part) => formatNumber(totalUs({ us: timeBetween(from, after[i]![part]!) }) / 1_000)),
    ]),
  };
}
