/** Agents of the run: they claim, acknowledge, reject, extend, forget and repeat, and keep each response in the history. */
import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Agent as Library } from '../../../../server/deliver/client/index.ts';
import type { Delivery, Settled } from '../../../helpers/agents.ts';
import type { Agent, Lease, Settlement } from '../history.ts';
import type { World } from '../world/world.ts';
import type { Order, Reply } from './http.ts';
import { checkStatus, hashOf } from './senders.ts';

const any = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)]!;
const upTo = (max: number) => Math.floor(Math.random() * (max + 1));

/** Share of claims whose connection ends before the response. */
const GIVEN_UP = 0.01;
const GIVEN_UP_MS = 60;
const TRIES = 3;

export interface Consumers {
  /** From now on every delivery is acknowledged. */
  drain(): void;
  /** Ends the client library in the middle of its work and starts it again. */
  restartLibrary(): void;
  stop(): Promise<void>;
}

export function startConsumers(world: World): Consumers {
  const state = { draining: false, stopped: false };
  const agents = world.agents.flatMap((agent) => Array.from({ length: agent.clients }, () => agent));
  const running = agents.map((agent, number) => new Consumer(world, agent, number, state).run());
  const library = startLibrary(world, world.agents.find(({ role }) => role === 'library')!);
  return {
    drain: () => {
      state.draining = true;
    },
    restartLibrary: library.restart,
    async stop() {
      state.stopped = true;
      await Promise.all([...running, library.stop()]);
    },
  };
}

/** One client of an agent. */
class Consumer {
  readonly #world: World;
  readonly #agent: Agent;
  readonly #state: { draining: boolean; stopped: boolean };
  #instance: World['instances'][number];
  #token: string | null = null;
  /** Acknowledged by the next claim. */
  #carried: Lease[] = [];

  constructor(world: World, agent: Agent, number: number, state: { draining: boolean; stopped: boolean }) {
    this.#world = world;
    this.#agent = agent;
    this.#state = state;
    this.#instance = world.instances[number % world.instances.length]!;
  }

  async run(): Promise<void> {
    while (!this.#state.stopped) {
      // Without a response, or refused: the next try may use another session at another instance.
      if (await this.#turn().catch(() => false)) continue;
      await delay(200 + upTo(300));
      if (Math.random() < 0.3) this.#instance = any(this.#world.instances);
      if (Math.random() < 0.3) this.#token = null;
    }
  }

  async #post(path: string, body: object, more: Partial<Order> = {}): Promise<Reply> {
    const headers = { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' };
    const order = { path: `/api/v1/agent/${path}`, headers, body: JSON.stringify(body), ...more };
    const reply = await this.#instance.client.send(order);
    checkStatus(this.#world.history, reply, `${path} of ${this.#agent.name}`);
    if (reply.status === 401) this.#token = null;
    return reply;
  }

  async #turn(): Promise<boolean> {
    if (this.#token === null) {
      this.#token = this.#agent.credential;
      const { status, body } = await this.#post('session', {});
      this.#token = status === 200 ? body.access_token : null;
      if (this.#token === null) return false;
    }
    const leases = await this.#claim();
    if (leases === null) return false;
    this.#world.history.leases.push(...leases);
    if (leases.length > 0) await this.#settle(leases);
    return true;
  }

  /** Null: it was refused. */
  async #claim(): Promise<Lease[] | null> {
    const { draining } = this.#state;
    const carried = this.#carried;
    this.#carried = [];
    const oneByOne = this.#agent.maxLeased === 1;
    const seconds = draining ? 20 : 5 + upTo(5);
    const order = {
      max: oneByOne ? 1 : draining ? 50 : 1 + upTo(39),
      lease_seconds: seconds,
      wait_seconds: draining ? 1 : upTo(3),
      ...(carried.length > 0 && { ack: carried.map(({ receipt }) => receipt) }),
    };
    const ack = this.#begin('ack', carried);
    const sentAt = Date.now();
    const givesUp = !draining && Math.random() < GIVEN_UP;
    const more = givesUp ? { endAfterMs: Math.random() * GIVEN_UP_MS } : {};
    const reply = await this.#post('deliveries/claim', order, more).catch(() => null);
    const answeredAt = Date.now();
    ack.answeredAt = answeredAt;
    if (reply?.status === 503 && carried.length > 0) await this.#tell('ack', carried);
    if (reply?.status !== 200) return null;
    if (carried.length > 0) this.#settled(ack, reply.body.settled);
    return (reply.body.deliveries as Delivery[]).map(({ id, receipt, attempt, event }) => ({
      agent: this.#agent.name,
      delivery: id,
      receipt,
      number: Number(receipt.split('.')[1]),
      attempt,
      event: event.id,
      hash: hashOf(event.body ?? Buffer.from(event.body_base64!, 'base64')),
      marker: event.headers['x-marker'],
      sentAt,
      answeredAt,
      seconds,
      settlements: [],
    }));
  }

  async #settle(leases: Lease[]): Promise<void> {
    const { draining } = this.#state;
    const { maxLeased, nacks = 0.03 } = this.#agent;
    if (draining) return this.#tell(Math.random() < nacks / 6 ? 'nack' : 'ack', leases);
    await delay(Math.random() * 80);
    const chosen = Math.random();
    if (chosen > 0.6) this.#carried = leases;
    else if (maxLeased === 1) await this.#tell('ack', leases);
    else if (chosen < nacks) await this.#tell('nack', leases, { delay_seconds: upTo(1), reason: any(['no', 'busy']) });
    else if (chosen < nacks + 0.03) await this.#tell('nack', leases, { release: true });
    // Left to expire.
    else if (chosen < nacks + 0.06) return;
    else if (chosen < nacks + 0.1) {
      await this.#tell('extend', leases, { lease_seconds: 5 + upTo(5) });
      await delay(Math.random() * 2_000);
      await this.#tell('ack', leases);
    } else if (chosen < nacks + 0.13) {
      // Near the end of the lease, before or after.
      await delay(leases[0]!.seconds * 1_000 * (0.8 + Math.random() * 0.5));
      await this.#tell('ack', leases);
    } else {
      await this.#tell('ack', leases);
      if (chosen < nacks + 0.2) await this.#tell('ack', leases);
    }
  }

  async #tell(
    how: Settlement['how'],
    leases: Lease[],
    rest: { lease_seconds?: number; delay_seconds?: number; reason?: string; release?: true } = {},
  ): Promise<void> {
    const settlement = this.#begin(how, leases, rest.lease_seconds);
    const body = { receipts: settlement.receipts, ...rest };
    for (let tries = 0; tries < TRIES; tries++) {
      const reply = await this.#post(`deliveries/${how}`, body).catch(() => null);
      settlement.answeredAt = Date.now();
      if (reply?.status === 200) this.#settled(settlement, reply.body);
      if (reply?.status === 200 || reply?.status === 401) return;
      await delay(300);
    }
  }

  /** Each receipt has an outcome. */
  #settled(settlement: Settlement, { done, gone, away = [] }: Settled): void {
    settlement.done = new Set(done);
    const known = new Set([...done, ...gone, ...away]);
    const left = settlement.receipts.filter((receipt) => !known.has(receipt));
    if (left.length > 0) this.#world.history.observe('each receipt has an outcome', `${settlement.how} ${left}`);
  }

  #begin(how: Settlement['how'], leases: readonly Lease[], seconds = 0): Settlement {
    const receipts = leases.map(({ receipt }) => receipt);
    const agent = this.#agent.name;
    const settlement = {
      how,
      agent,
      receipts,
      seconds,
      sentAt: Date.now(),
      answeredAt: Infinity,
      done: new Set<string>(),
    };
    if (leases.length === 0) return settlement;
    this.#world.history.settlements.push(settlement);
    for (const lease of leases) lease.settlements.push(settlement);
    return settlement;
  }
}

/** An agent that uses the client library. */
function startLibrary({ history, instances, folder }: World, agent: Agent) {
  const credentialFile = join(folder, 'library.credential');
  let abort = new AbortController();
  let stopped = false;
  const handle = async ({ id, event }: { id: string; event: { id: string; body: Uint8Array } }) => {
    history.handled.push({ delivery: id, event: event.id, hash: hashOf(Buffer.from(event.body)) });
    await delay(Math.random() * 30);
    if (Math.random() < 0.01) throw new Error('no');
  };
  const run = async () => {
    while (!stopped) {
      abort = new AbortController();
      writeFileSync(credentialFile, agent.credential, { mode: 0o600 });
      const url = `http://127.0.0.1:${any(instances).parts.port}`;
      const notify = ({ kind, message }: { kind: string; message: string }) =>
        appendFileSync(join(folder, 'library.log'), `${kind} ${message}\n`);
      const options = { concurrency: 4, leaseSeconds: 10, waitSeconds: 3, drainSeconds: 2, signal: abort.signal };
      const ended = await new Library({ url, credentialFile, notify }).run(handle, options).then(
        () => null,
        (error: Error) => error,
      );
      const isRotated = history.rotations.some((rotation) => rotation.agent === agent.name);
      if (ended !== null && !isRotated) history.observe('the client library ended', ended.message);
      await delay(500);
    }
  };
  const running = run();
  return {
    restart: () => abort.abort(),
    async stop() {
      stopped = true;
      abort.abort();
      await running;
    },
  };
}
