/**
 * Scenario `drain`: rate at which an agent processes a backlog over HTTP. Each delivery is claimed with its body and acked.
 *
 *     each round:  claim sizes x consumers | one a claim | client library | plain SQL
 *     each turn:   deliveries recreated, vacuum, checkpoint, then claim + ack until all are done or the window ends
 */
import pg from 'pg';
import { Agent } from '../server/client/index.ts';
import { type AgentClient, openAgent } from './lib/agent.ts';
import { type Backlog, countInState, renewDeliveries, storeEvents } from './lib/backlog.ts';
import { pgOptions } from './lib/database.ts';
import type { BenchContext, Outcome, Scenario } from './lib/outcome.ts';
import { drainBySql } from './lib/sql-queue.ts';
import { formatNumber, formatSpread, ratioByRound, spreadOf } from './lib/stats.ts';
import { openWeir } from './lib/weir.ts';

const STORED = 100_000;
const BODY_BYTES = 1024;
const CLAIM_SIZES = [10, 100, 500, 1000];
const CONSUMERS = [1, 4];
/** Concurrency of the client library. */
const CONCURRENCIES = [1, 10, 100];
/**
 * Claim size of plain SQL and of the cell that is judged against it. The cell is fixed in advance, so that one lucky cell
 * does not count.
 */
const SQL_CLAIM_SIZE = 500;
const JUDGED_CONSUMERS = 4;

export const drain: Scenario = {
  name: 'drain',
  summary: '100,000 stored deliveries of 1 KiB, claimed and acked over HTTP',
  defaults: { rounds: 3, seconds: 12 },
  run,
};

/** One contestant of the rotation, with one value per round. */
interface Cell {
  name: string;
  claimSize: number;
  consumers: number;
  /** An Agent of the client library, with `consumers` as its concurrency. Null for plain SQL. */
  consumer: AgentClient | Agent | null;
  perSecond: number[];
}

/** One claim and its acks; resolves with the number of deliveries. */
export type Step = () => Promise<number>;

async function run(context: BenchContext): Promise<Outcome> {
  const { conninfo, database, weir } = await openWeir(context);
  const webhook = await weir.addWebhook();
  const agent = await weir.addAgent([webhook.id]);
  const backlog: Backlog = { webhookId: webhook.id, agentId: agent.id, rows: STORED, bodyBytes: BODY_BYTES };
  context.say(`storing ${formatNumber(STORED)} events`);
  await storeEvents(database, backlog);

  // All consumers share one session: sign-ins are rate-limited, and each claim in flight has its own connection anyway.
  const consumer = await openAgent(weir.origin, agent.credential);
  context.undo(() => consumer.close());
  const library = new Agent({ url: weir.origin, credential: agent.credential });
  context.undo(() => library.close());
  const cells: Cell[] = [
    ...CONCURRENCIES.map((consumers) => ({
      name: libraryName(consumers),
      claimSize: consumers,
      consumers,
      consumer: library,
      perSecond: [],
    })),
    ...CONSUMERS.flatMap((consumers) =>
      [1, ...CLAIM_SIZES].map((claimSize) => ({
        name: weirName(claimSize, consumers),
        claimSize,
        consumers,
        consumer,
        perSecond: [],
      })),
    ),
    ...CONSUMERS.map((consumers) => ({
      name: sqlName(consumers),
      claimSize: SQL_CLAIM_SIZE,
      consumers,
      consumer: null,
      perSecond: [],
    })),
  ];
  const faults: string[] = [];
  for (let round = 1; round <= context.rounds; round++)
    for (const cell of cells) {
      context.signal.throwIfAborted();
      await renewDeliveries(database, backlog);
      const { consumer } = cell;
      const { done, perSecond } =
        consumer instanceof Agent
          ? await drainByLibrary(consumer, cell.consumers, context)
          : await drainFor(
              context.seconds,
              await openSteps({ ...cell, consumer }, conninfo, backlog, context),
              context.signal,
            );
      cell.perSecond.push(perSecond);
      const stored = await countInState(database, 'done');
      if (stored !== done) faults.push(`${cell.name}: ${stored} deliveries are done for ${done} that were acked`);
      context.say(`round ${round} of ${context.rounds}: ${cell.name}: ${formatNumber(perSecond)} deliveries/s`);
    }
  return summarise(cells, faults);
}

/** A contestant that claims step by step. */
type SteppedCell = Pick<Cell, 'claimSize' | 'consumers'> & { consumer: AgentClient | null };

function openSteps(cell: SteppedCell, conninfo: string, backlog: Backlog, context: BenchContext): Promise<Step[]> {
  return Promise.all(Array.from({ length: cell.consumers }, () => openStep(cell, conninfo, backlog, context)));
}

/** Runs the agent with an empty handler until no deliveries are left or the time is over. */
async function drainByLibrary(agent: Agent, concurrency: number, { seconds, signal }: BenchContext) {
  const startMs = performance.now();
  const stop = AbortSignal.any([signal, AbortSignal.timeout(seconds * 1000)]);
  const { done } = await agent.run(() => {}, { concurrency, max: STORED, signal: stop });
  return { done, perSecond: done / ((performance.now() - startMs) / 1000) };
}

async function openStep(
  { claimSize, consumer }: SteppedCell,
  conninfo: string,
  backlog: Backlog,
  { undo }: BenchContext,
): Promise<Step> {
  if (consumer === null) {
    const client = new pg.Client(pgOptions(conninfo));
    await client.connect();
    undo(() => client.end());
    return () => drainBySql(client, backlog, claimSize);
  }
  return async () => {
    const deliveries = await consumer.claim({ max: claimSize, waitSeconds: 0 });
    if (deliveries.length > 0) await consumer.ack(deliveries);
    return deliveries.length;
  };
}

/** Runs all steps concurrently until no deliveries are left or the time is over. */
async function drainFor(seconds: number, steps: readonly Step[], signal: AbortSignal) {
  const startMs = performance.now();
  let done = 0;
  let endMs = startMs;
  const drainOne = async (step: Step) => {
    while (endMs - startMs < seconds * 1000) {
      signal.throwIfAborted();
      const count = await step();
      if (count === 0) return;
      done += count;
      endMs = performance.now();
    }
  };
  await Promise.all(steps.map(drainOne));
  return { done, perSecond: done / ((endMs - startMs) / 1000) };
}

function weirName(claimSize: number, consumers: number): string {
  return `Weir, ${consumers} consumers, ${claimSize} a claim`.replace('1 consumers', '1 consumer');
}

function libraryName(concurrency: number): string {
  return `client library, concurrency ${concurrency}`;
}

function sqlName(consumers: number): string {
  return `plain SQL, ${consumers} connections`.replace('1 connections', '1 connection');
}

function summarise(cells: readonly Cell[], faults: string[]): Outcome {
  const rates = (name: string) => cells.find((cell) => cell.name === name)!.perSecond;
  const judged = weirName(SQL_CLAIM_SIZE, JUDGED_CONSUMERS);
  const ratio = (of: string, to: string) => ({ of, to, values: ratioByRound(rates(of), rates(to)) });
  return {
    tables: [
      {
        header: [
          'deliveries a claim',
          ...CONSUMERS.map((n) => `${n} ${n === 1 ? 'consumer' : 'consumers'}, deliveries/s`),
        ],
        rows: [
          ...[1, ...CLAIM_SIZES].map((size) => [
            String(size),
            ...CONSUMERS.map((consumers) => formatSpread(rates(weirName(size, consumers)))),
          ]),
          ...CONCURRENCIES.map((n) => [libraryName(n), formatSpread(rates(libraryName(n))), '']),
          [
            `plain SQL, ${SQL_CLAIM_SIZE}, no HTTP, no bodies`,
            ...CONSUMERS.map((consumers) => formatSpread(rates(sqlName(consumers)))),
          ],
        ],
      },
    ],
    measures: cells.map(({ name, perSecond }) => ({ name, unit: 'deliveries/s', values: perSecond })),
    ratios: CONSUMERS.flatMap((consumers) => [
      ratio(weirName(SQL_CLAIM_SIZE, consumers), weirName(1, consumers)),
      ratio(weirName(SQL_CLAIM_SIZE, consumers), sqlName(consumers)),
    ]),
    goals: [
      {
        what: `${judged}:`,
        value: spreadOf(rates(judged)).median,
        unit: 'deliveries/s',
        atLeast: 15_000,
      },
    ],
    notes: [
      'Weir with 1 process; consumers (one Node process), Weir and Postgres share the cores. A consumer claims, acks, and claims again.',
      'Plain SQL is one statement that leases (select .. for update skip locked) and one that finishes, through node-postgres, on the same table with its indexes.',
    ],
    faults,
  };
}
