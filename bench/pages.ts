/**
 * Scenario `pages`: load time of a page with a million stored events, and how much users who browse slow down senders.
 *
 *     each round:  the pages, one after another, without senders
 *                  requests at a constant rate without users | while 10 users open one page per second each
 */
import { setTimeout as delay } from 'node:timers/promises';
import { CommandError } from '../server/base/command/io.ts';
import { benchBody, signedRequest } from '../server/operate/load/environment.ts';
import { storeEvents } from './lib/backlog.ts';
import type { BenchContext, Outcome, Scenario } from './lib/outcome.ts';
import { sendPaced } from './lib/pace.ts';
import { formatNumber, formatSpread, percentile, ratioByRound, spreadOf } from './lib/stats.ts';
import { openWeir } from './lib/weir.ts';

const BODY_BYTES = 1024;
const STORED_EVENTS = 1_000_000;
const PER_SECOND = 1_000;
const PERSONS = 10;
const CLICK_EVERY_MS = 1_000;
/** Number of loads of each page, one after another. */
const LOOKS = 30;
const WARM_UP_SECONDS = 1;

export const pages: Scenario = {
  name: 'pages',
  summary: 'pages of 1,000,000 events, and receiving 1 KiB at a constant rate while ten people click',
  defaults: { rounds: 5, seconds: 5 },
  run,
};

interface Sent {
  p50Ms: number[];
  p99Ms: number[];
}

async function run(context: BenchContext): Promise<Outcome> {
  const { database, secret, weir } = await openWeir(context);
  const webhook = await weir.addWebhook();
  const look = await lookWith(weir.origin, await weir.addToken());
  await storeEvents(database, { webhookId: webhook.id, rows: STORED_EVENTS, bodyBytes: BODY_BYTES });
  await database.query({ text: 'vacuum analyze events' });
  await database.query({ text: 'checkpoint' });
  const [newest] = await database.query<{ id: string }>({
    text: 'select id from events order by received_at desc, id desc limit 1',
  });
  const places = ['/events', `/events/${newest!.id}`, '/', `/webhooks/${webhook.id}`, '/deliveries'];
  const pagesMs = new Map<string, { p50: number[]; p99: number[]; bytes: number }>(
    places.map((path) => [path, { p50: [], p99: [], bytes: 0 }]),
  );
  const order = { url: webhook.url, ...signedRequest(secret, benchBody(BODY_BYTES)), perSecond: PER_SECOND };
  const alone: Sent = { p50Ms: [], p99Ms: [] };
  const watched: Sent = { p50Ms: [], p99Ms: [] };

  for (const path of places) await look(path);
  await sendPaced({ ...order, seconds: WARM_UP_SECONDS }, context.signal);
  for (let round = 1; round <= context.rounds; round++) {
    for (const [path, series] of pagesMs) {
      const looks: { tookMs: number; bytes: number }[] = [];
      for (let i = 0; i < LOOKS; i++) looks.push(await look(path));
      const tookMs = looks.map((one) => one.tookMs);
      series.p50.push(percentile(tookMs, 0.5));
      series.p99.push(percentile(tookMs, 0.99));
      series.bytes = looks[0]!.bytes;
    }
    await send(alone, 0);
    await send(watched, PERSONS);
    context.say(
      `round ${round} of ${context.rounds}: /events ${formatNumber(pagesMs.get('/events')!.p50.at(-1)!)} ms; ` +
        `p99 of senders ${formatNumber(alone.p99Ms.at(-1)!)} ms, with ${PERSONS} people clicking ${formatNumber(watched.p99Ms.at(-1)!)} ms`,
    );
  }

  async function send(series: Sent, persons: number): Promise<void> {
    const over = new AbortController();
    const clicking = Array.from({ length: persons }, (_, person) => click(look, places, person, over.signal));
    const sent = await sendPaced({ ...order, seconds: context.seconds }, context.signal).finally(() => over.abort());
    await Promise.all(clicking);
    const tookMs = sent.map(({ dueMs, answeredMs }) => answeredMs - dueMs);
    series.p50Ms.push(percentile(tookMs, 0.5));
    series.p99Ms.push(percentile(tookMs, 0.99));
  }
  return summarise(pagesMs, alone, watched, [newest!.id, webhook.id]);
}

type Look = (path: string) => Promise<{ tookMs: number; bytes: number }>;

/** Loads a page as a browser does, compressed; resolves with the duration and the size in bytes. */
async function lookWith(origin: string, token: string): Promise<Look> {
  return async (path) => {
    const startMs = performance.now();
    const response = await fetch(origin + path, {
      headers: { authorization: `Bearer ${token}`, 'accept-encoding': 'gzip' },
      redirect: 'manual',
    });
    if (response.status !== 200) throw new CommandError(`${path} was answered ${response.status}`);
    await response.arrayBuffer();
    return { tookMs: performance.now() - startMs, bytes: Number(response.headers.get('content-length')) };
  };
}

/** One user: opens one page per second, in list order. */
async function click(look: Look, places: readonly string[], person: number, signal: AbortSignal): Promise<void> {
  for (let step = person; !signal.aborted; step++) {
    await look(places[step % places.length]!);
    await delay(CLICK_EVERY_MS * (0.5 + Math.random()), undefined, { signal }).catch(() => {});
  }
}

function summarise(
  pagesMs: ReadonlyMap<string, { p50: number[]; p99: number[]; bytes: number }>,
  alone: Sent,
  watched: Sent,
  ids: readonly string[],
): Outcome {
  const shown = (path: string) => ids.reduce((text, id) => text.replace(id, '{id}'), path);
  const list = pagesMs.get('/events')!;
  return {
    tables: [
      {
        header: ['page of 1,000,000 events', 'p50 ms', 'p99 ms', 'bytes, compressed'],
        rows: [...pagesMs].map(([path, { p50, p99, bytes }]) => [
          shown(path),
          formatSpread(p50),
          formatSpread(p99),
          formatNumber(bytes),
        ]),
      },
      {
        header: [`${PER_SECOND.toLocaleString('en-GB')} requests/s`, 'p50 ms', 'p99 ms'],
        rows: [
          ['no page views', formatSpread(alone.p50Ms), formatSpread(alone.p99Ms)],
          [`${PERSONS} people click`, formatSpread(watched.p50Ms), formatSpread(watched.p99Ms)],
        ],
      },
    ],
    measures: [
      ...[...pagesMs].map(([path, { p50 }]) => ({ name: `${shown(path)}: p50`, unit: 'ms', values: p50 })),
      { name: 'no page views: p99', unit: 'ms', values: alone.p99Ms },
      { name: `${PERSONS} people click: p99`, unit: 'ms', values: watched.p99Ms },
    ],
    ratios: [
      {
        of: `p99 while ${PERSONS} people click`,
        to: 'p99 without page views',
        values: ratioByRound(watched.p99Ms, alone.p99Ms),
      },
    ],
    goals: [
      { what: 'a page of 50 events, p50:', value: spreadOf(list.p50).median, unit: 'ms', below: 15 },
      { what: 'that page, compressed:', value: list.bytes, unit: 'bytes', below: 50_000 },
      {
        what: `p99 of senders while ${PERSONS} people click:`,
        value: spreadOf(watched.p99Ms).median,
        unit: 'ms',
        below: 60,
      },
    ],
    notes: [
      'One Weir with 1 process. Page times are from the request to the last byte, at the client; sender, people, Weir and Postgres share the cores.',
    ],
    faults: [],
  };
}
