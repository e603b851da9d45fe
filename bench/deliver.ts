/**
 * Scenario `deliver`: latency from an accepted webhook request to its agent, at a constant arrival rate.
 *
 *     each round:  200/s long poll | 200/s client library | 200/s poll | 1,000/s long poll | ...
 *     each event:  due -> sent -> 202 ..... claimed by the consumer, which acks and claims again
 */

import { setTimeout as delay } from 'node:timers/promises';
import { CommandError } from '../server/base/command/io.ts';
import { Agent } from '../server/deliver/client/index.ts';
import { benchBody, emptyTable, signedRequest } from '../server/operate/load/environment.ts';
import { type AgentClient, openAgent } from './lib/agent.ts';
import type { BenchContext, Outcome, Scenario } from './lib/outcome.ts';
import { type Sent, sendPaced } from './lib/pace.ts';
import { formatNumber, formatSpread, percentile, ratioByRound, spreadOf } from './lib/stats.ts';
import { openWeir } from './lib/weir.ts';

const BODY_BYTES = 1024;
const LONG_POLL = 'long poll';
const LIBRARY = 'client library';
const POLL = 'poll every 100 ms';
const POLL_EVERY_MS = 100;
/** Goals for the 95th percentile from the 202 to the consumer, and to the handler of the client library, by rate. */
const GOALS_MS = new Map([
  [200, { [LONG_POLL]: 25, [LIBRARY]: 15 }],
  [1000, { [LONG_POLL]: 40, [LIBRARY]: 15 }],
]);
const CLAIM_MAX = 500;
const LIBRARY_CONCURRENCY = 100;
/** At these rates no claim waits a tenth of this time, except the last claim of a window. */
const WAIT_SECONDS = 1;
/** Load before the measured window, for code compilation and query plans. */
const WARM_UP_SECONDS = 1;
/** Time limit for the last event; later events count as lost. */
const LAST_ONE_MS = 10_000;

export const deliver: Scenario = {
  name: 'deliver',
  summary: 'from the 202 to the agent, 1 KiB at a constant rate',
  defaults: { rounds: 5, seconds: 5 },
  run,
};

interface Cell {
  way: typeof LONG_POLL | typeof LIBRARY | typeof POLL;
  perSecond: number;
  /** Measured from the 202; negative when the consumer was faster than the response. */
  p50Ms: number[];
  p95Ms: number[];
  p99Ms: number[];
  /** Measured from the time at which the request was due. */
  fromDueP50Ms: number[];
  fromDueP95Ms: number[];
}

async function run(context: BenchContext): Promise<Outcome> {
  const { database, secret, weir } = await openWeir(context);
  const webhook = await weir.addWebhook();
  const { credential } = await weir.addAgent([webhook.id]);
  const client = await openAgent(weir.origin, credential);
  context.undo(() => client.close());
  const library = new Agent({ url: weir.origin, credential });
  context.undo(() => library.close());
  const signed = signedRequest(secret, benchBody(BODY_BYTES));
  const cells: Cell[] = [...GOALS_MS.keys()].flatMap((perSecond) =>
    ([LONG_POLL, LIBRARY, POLL] as const).map((way) => ({
      way,
      perSecond,
      p50Ms: [],
      p95Ms: [],
      p99Ms: [],
      fromDueP50Ms: [],
      fromDueP95Ms: [],
    })),
  );

  async function measure({ way, perSecond }: Cell) {
    await emptyTable(database, 'events, deliveries');
    const consumer = way === LIBRARY ? new LibraryConsumer(library) : new HttpConsumer(client, way);
    const consuming = consumer.run();
    // The promise is awaited at the end. Until then this handler prevents an unhandled rejection.
    consuming.catch(() => {});
    try {
      const order = { ...signed, url: webhook.url, perSecond };
      await sendPaced({ ...order, seconds: WARM_UP_SECONDS }, context.signal);
      const sent = await sendPaced({ ...order, seconds: context.seconds }, context.signal);
      await consumer.until(sent.map(({ id }) => id));
      return latencies(sent, consumer.receivedMs);
    } finally {
      consumer.end();
      await consuming;
    }
  }

  for (let round = 1; round <= context.rounds; round++)
    for (const cell of cells) {
      const { from202, fromDue } = await measure(cell);
      cell.p50Ms.push(percentile(from202, 0.5));
      cell.p95Ms.push(percentile(from202, 0.95));
      cell.p99Ms.push(percentile(from202, 0.99));
      cell.fromDueP50Ms.push(percentile(fromDue, 0.5));
      cell.fromDueP95Ms.push(percentile(fromDue, 0.95));
      context.say(
        `round ${round} of ${context.rounds}: ${nameOf(cell)}: p50 ${formatNumber(cell.p50Ms.at(-1)!)} ms, ` +
          `p95 ${formatNumber(cell.p95Ms.at(-1)!)} ms, from sending p95 ${formatNumber(cell.fromDueP95Ms.at(-1)!)} ms`,
      );
    }
  return summarise(cells);
}

/** Records when each event arrived. */
abstract class Consumer {
  readonly receivedMs = new Map<string, number>();

  abstract run(): Promise<void>;
  abstract end(): void;

  /** Resolves when all these events have arrived. Rejects with CommandError when some do not arrive. */
  async until(ids: readonly string[]): Promise<void> {
    const untilMs = performance.now() + LAST_ONE_MS;
    while (!ids.every((id) => this.receivedMs.has(id))) {
      if (performance.now() > untilMs)
        throw new CommandError(
          `${ids.filter((id) => !this.receivedMs.has(id)).length} of ${ids.length} were not received`,
        );
      await delay(20);
    }
  }
}

/** Claims, acks, and claims again. */
class HttpConsumer extends Consumer {
  readonly #client: AgentClient;
  readonly #way: Cell['way'];
  #ended = false;

  constructor(client: AgentClient, way: Cell['way']) {
    super();
    this.#client = client;
    this.#way = way;
  }

  async run(): Promise<void> {
    const waitSeconds = this.#way === LONG_POLL ? WAIT_SECONDS : 0;
    while (!this.#ended) {
      const startMs = performance.now();
      const deliveries = await this.#client.claim({ max: CLAIM_MAX, waitSeconds });
      const nowMs = performance.now();
      for (const { event } of deliveries) this.receivedMs.set(event.id, nowMs);
      if (deliveries.length > 0) await this.#client.ack(deliveries);
      if (this.#way === POLL) await delay(Math.max(0, startMs + POLL_EVERY_MS - performance.now()));
    }
  }

  end(): void {
    this.#ended = true;
  }
}

/** A handler of the client library that only takes the time. */
class LibraryConsumer extends Consumer {
  readonly #agent: Agent;
  readonly #stop = new AbortController();

  constructor(agent: Agent) {
    super();
    this.#agent = agent;
  }

  async run(): Promise<void> {
    const received = ({ event }: { event: { id: string } }) => void this.receivedMs.set(event.id, performance.now());
    await this.#agent.run(received, { concurrency: LIBRARY_CONCURRENCY, signal: this.#stop.signal });
  }

  end(): void {
    this.#stop.abort();
  }
}

function latencies(sent: readonly Sent[], receivedMs: ReadonlyMap<string, number>) {
  return {
    from202: sent.map(({ id, answeredMs }) => receivedMs.get(id)! - answeredMs),
    fromDue: sent.map(({ id, dueMs }) => receivedMs.get(id)! - dueMs),
  };
}

function nameOf({ way, perSecond }: Pick<Cell, 'way' | 'perSecond'>): string {
  return `${way}, ${perSecond.toLocaleString('en-GB')}/s`;
}

function summarise(cells: readonly Cell[]): Outcome {
  const find = (way: Cell['way'], perSecond: number) =>
    cells.find((cell) => cell.way === way && cell.perSecond === perSecond)!;
  const rates = [...GOALS_MS.keys()];
  return {
    tables: [
      {
        header: ['arrival, consumer', 'p50 ms', 'p95 ms', 'p99 ms', 'p50 ms from sending', 'p95 ms from sending'],
        rows: cells.map((cell) => [
          nameOf(cell),
          ...[cell.p50Ms, cell.p95Ms, cell.p99Ms, cell.fromDueP50Ms, cell.fromDueP95Ms].map(formatSpread),
        ]),
      },
    ],
    measures: cells.flatMap((cell) => [
      { name: `${nameOf(cell)}: p50`, unit: 'ms', values: cell.p50Ms },
      { name: `${nameOf(cell)}: p95`, unit: 'ms', values: cell.p95Ms },
      { name: `${nameOf(cell)}: p99`, unit: 'ms', values: cell.p99Ms },
      { name: `${nameOf(cell)}: p50 from sending`, unit: 'ms', values: cell.fromDueP50Ms },
      { name: `${nameOf(cell)}: p95 from sending`, unit: 'ms', values: cell.fromDueP95Ms },
    ]),
    ratios: rates.map((perSecond) => {
      const [of, to] = [find(POLL, perSecond), find(LONG_POLL, perSecond)];
      return { of: `p95, ${nameOf(of)}`, to: nameOf(to), values: ratioByRound(of.p95Ms, to.p95Ms) };
    }),
    goals: rates.flatMap((perSecond) =>
      ([LONG_POLL, LIBRARY] as const).map((way) => ({
        what: `p95 from the 202 to the consumer, ${nameOf(find(way, perSecond))}:`,
        value: spreadOf(find(way, perSecond).p95Ms).median,
        unit: 'ms',
        below: GOALS_MS.get(perSecond)![way],
      })),
    ),
    notes: [
      'From the 202 at the sender to the parsed delivery at the consumer, both in one Node process, which shares the cores with Weir (1 process) and Postgres. From sending: from the scheduled moment of the request.',
      `The client library runs an empty handler with concurrency ${LIBRARY_CONCURRENCY}.`,
      `One other consumer: it claims up to ${CLAIM_MAX}, acks, and claims again; with polling it does so ten times a second.`,
    ],
    faults: [],
  };
}
