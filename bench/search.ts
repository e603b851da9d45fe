/**
 * Scenario `search`: how much users who search bodies slow down senders. Each search finds nothing, so it scans every event.
 *
 *     each round:  no user | 1 user | 2 users     each runs one search after another, while requests arrive at a constant rate
 */

import { CommandError } from '../server/base/command/io.ts';
import { benchBody, signedRequest } from '../server/operate/load/environment.ts';
import { storeEvents } from './lib/backlog.ts';
import type { BenchContext, Outcome, Scenario } from './lib/outcome.ts';
import { sendPaced } from './lib/pace.ts';
import { formatNumber, formatSpread, percentile, ratioByRound, spreadOf } from './lib/stats.ts';
import { openWeir } from './lib/weir.ts';

const BODY_BYTES = 1024;
const STORED_EVENTS = 300_000;
const PER_SECOND = 1_000;
const PERSONS = [0, 1, 2];
const WARM_UP_SECONDS = 1;

export const search: Scenario = {
  name: 'search',
  summary: 'receiving 1 KiB at a constant rate while people search the bodies of 300,000 events',
  defaults: { rounds: 5, seconds: 5 },
  run,
};

interface Series {
  persons: number;
  p50Ms: number[];
  p99Ms: number[];
  /** Events scanned by all users together. */
  eventsPerSecond: number[];
}

async function run(context: BenchContext): Promise<Outcome> {
  const { database, secret, weir } = await openWeir(context);
  const webhook = await weir.addWebhook();
  const token = await weir.addToken();
  await storeEvents(database, { webhookId: webhook.id, rows: STORED_EVENTS, bodyBytes: BODY_BYTES });
  await database.query({ text: 'vacuum analyze events' });
  await database.query({ text: 'checkpoint' });
  // Events sent during the measurement are newer than the searched range, which therefore stays the same.
  const [first] = await database.query<{ ms: number }>({
    text: 'select extract(epoch from min(received_at))::float8 * 1000 as ms from events',
  });
  const stored = { fromMs: first!.ms, to: new Date().toISOString() };
  const signed = signedRequest(secret, benchBody(BODY_BYTES));
  const order = { url: webhook.url, ...signed, perSecond: PER_SECOND };
  const all: Series[] = PERSONS.map((persons) => ({ persons, p50Ms: [], p99Ms: [], eventsPerSecond: [] }));

  await sendPaced({ ...order, seconds: WARM_UP_SECONDS }, context.signal);
  for (let round = 1; round <= context.rounds; round++)
    for (const series of all) {
      const over = new AbortController();
      const searching = Array.from({ length: series.persons }, () => searchOn(weir.origin, token, stored, over.signal));
      const sent = await sendPaced({ ...order, seconds: context.seconds }, context.signal).finally(() => over.abort());
      const searched = (await Promise.all(searching)).reduce((sum, events) => sum + events, 0);
      const tookMs = sent.map(({ dueMs, answeredMs }) => answeredMs - dueMs);
      series.p50Ms.push(percentile(tookMs, 0.5));
      series.p99Ms.push(percentile(tookMs, 0.99));
      series.eventsPerSecond.push(searched / context.seconds);
      context.say(
        `round ${round} of ${context.rounds}: ${nameOf(series)}: p50 ${formatNumber(series.p50Ms.at(-1)!)} ms, ` +
          `p99 ${formatNumber(series.p99Ms.at(-1)!)} ms, ${formatNumber(series.eventsPerSecond.at(-1)!)} events searched/s`,
      );
    }
  return summarise(all);
}

/** Continues each search where the previous one stopped, and restarts at the end; resolves with the number of events scanned. */
async function searchOn(
  origin: string,
  token: string,
  { fromMs, to }: { fromMs: number; to: string },
  signal: AbortSignal,
): Promise<number> {
  let complete = 0;
  let cursor: string | null = null;
  let share = 0;
  while (!signal.aborted) {
    const query = new URLSearchParams({ q: 'nowhere to be found', to, ...(cursor === null ? {} : { cursor }) });
    const headers = { authorization: `Bearer ${token}` };
    const response = await fetch(`${origin}/api/v1/events?${query}`, { headers });
    if (response.status !== 200) throw new CommandError(`a search was answered ${response.status}`);
    const page = (await response.json()) as { next_cursor: string | null; searched_to: string | null };
    cursor = page.next_cursor;
    if (cursor === null) complete++;
    // Events are one millisecond apart, so the time span that was searched is the number of events scanned.
    share = page.searched_to === null ? 0 : STORED_EVENTS - (Date.parse(page.searched_to) - fromMs);
  }
  return complete * STORED_EVENTS + Math.max(0, share);
}

function nameOf({ persons }: Series): string {
  return persons === 0 ? 'no search' : `${persons} ${persons === 1 ? 'person searches' : 'persons search'}`;
}

function summarise(all: readonly Series[]): Outcome {
  const [idle, ...some] = all as [Series, ...Series[]];
  return {
    tables: [
      {
        header: [`${PER_SECOND.toLocaleString('en-GB')} requests/s`, 'p50 ms', 'p99 ms', 'events searched/s'],
        rows: all.map((series) => [
          nameOf(series),
          formatSpread(series.p50Ms),
          formatSpread(series.p99Ms),
          formatSpread(series.eventsPerSecond),
        ]),
      },
    ],
    measures: all.flatMap((series) => [
      { name: `${nameOf(series)}: p50`, unit: 'ms', values: series.p50Ms },
      { name: `${nameOf(series)}: p99`, unit: 'ms', values: series.p99Ms },
      { name: `${nameOf(series)}: searched`, unit: 'events/s', values: series.eventsPerSecond },
    ]),
    ratios: some.map((series) => ({
      of: `p99, ${nameOf(series)}`,
      to: nameOf(idle),
      values: ratioByRound(series.p99Ms, idle.p99Ms),
    })),
    goals: [
      {
        what: `p99 while ${nameOf(some.at(-1)!)}:`,
        value: spreadOf(some.at(-1)!.p99Ms).median,
        unit: 'ms',
        below: 60,
      },
    ],
    notes: [
      'One Weir with 1 process. Times are from the scheduled moment of a request to its 202; sender, searchers, Weir and Postgres share the cores.',
      'Each person searches again immediately after the response, faster than real people do.',
    ],
    faults: all
      .slice(1)
      .flatMap((series) =>
        series.eventsPerSecond.some((rate) => rate === 0) ? [`${nameOf(series)}: nothing was searched in a round`] : [],
      ),
  };
}
