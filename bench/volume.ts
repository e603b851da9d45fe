/**
 * Scenario `volume`: pages and API calls of a Weir that people open when agents are down: many events are stored, and a million deliveries
 * wait, of six days, 2,000 webhooks and 200 agents.
 *
 *     each round:  each page and API call, some times, one after another, and claims with their acknowledgement
 *
 * Postgres logs each statement that takes longer than it should, also those of maintenance and alerts.
 */
import { openBenchAgent } from './lib/agent.ts';
import { countSlowStatements, logSlowStatements } from './lib/database.ts';
import { fillInstallation } from './lib/installation.ts';
import { LOOKS, Looks, lookWith, placesOf, reportLooks } from './lib/looks.ts';
import { type BenchContext, type BenchOutcome, below, type Scenario } from './lib/outcome.ts';
import { formatNumber } from './lib/stats.ts';
import { openWeir } from './lib/weir.ts';

const EVENTS = 5_000_000;
const SIZE = { pending: 1_000_000, days: 6, webhooks: 2_000, agents: 200 };
const PAGE_MS = 150;
const STATEMENT_MS = 500;

export const volume: Scenario = {
  name: 'volume',
  summary: 'pages and API calls with 5,000,000 events (--events N) and 1,000,000 pending deliveries',
  defaults: { rounds: 3, seconds: 1 },
  run,
};

async function run(context: BenchContext): Promise<BenchOutcome> {
  const opened = await openWeir(context);
  const { weir } = opened;
  const webhook = await weir.addWebhook();
  const agent = await weir.addAgent([]);
  const token = await weir.addToken();
  const events = context.events ?? EVENTS;
  const size = { ...SIZE, events, subscriptions: SIZE.webhooks, ofFirstAgent: null };
  await fillInstallation(context, opened.database, size, { webhookId: webhook.id, agentId: agent.id });
  await logSlowStatements(opened, STATEMENT_MS);
  const client = await openBenchAgent(weir.origin, agent.credential);
  context.undo(() => client.close());

  const places = placesOf(webhook.id, [agent.id]);
  const looks = new Looks(opened.database, weir.processes);
  const look = lookWith(weir.origin, token);
  for (const path of places) await look(path);
  for (let round = 1; round <= context.rounds; round++) {
    await looks.timePlaces(places, look, context.signal);
    await looks.timeClaims('claim of 100, with its ack', client, LOOKS);
    const [slowestMs, slowest] = looks.slowest;
    context.say(`round ${round} of ${context.rounds}: slowest: ${slowest}, ${formatNumber(slowestMs)} ms`);
  }
  const slow = await countSlowStatements(context, opened);
  const { table, measures, goals } = reportLooks(looks.timed, PAGE_MS);
  const { pending, days, webhooks, agents } = SIZE;
  return {
    tables: [table],
    measures,
    goals: [...goals, below(`statements above ${STATEMENT_MS} ms:`, [slow], 1)],
    notes: [
      `${formatNumber(events)} events and ${formatNumber(pending)} pending deliveries of ${days} days, ${formatNumber(webhooks)} webhooks and ${agents} agents; each load one after another, at the client.`,
    ],
  };
}
