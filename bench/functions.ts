/**
 * Scenario `functions`: the pure functions of the hot path, each compared with its simplest alternative. The alternative may
 * give a different result; its name or a comment states what it lacks.
 */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { Bench } from 'tinybench';
import { MemoryLimiter } from '../server/base/ratelimit/memory.ts';
import { restoreStringMethods } from '../server/base/ratelimit/open.ts';
import { inetBytes } from '../server/model/address.ts';
import { judgeEvent } from '../server/model/filters/evaluate.ts';
import { presentedSignature } from '../server/model/signatures/signature.ts';
import { HeaderLines } from '../server/model/signatures/stored-headers.ts';
import { benchBody } from '../server/operate/load/environment.ts';
import { dedupeKey, randomSource, storedText } from '../server/receive/ingest/store.ts';
import { CopyEncoder, type EventRow } from '../server/store/copy/rows.ts';
import { Directory } from '../server/store/directory.ts';
import { isoTime, uuidText, uuidv7 } from '../server/store/ids.ts';
import { parseLeased } from '../server/store/queries/claims/lease.ts';
import type { BenchContext, BenchOutcome, Scenario } from './lib/outcome.ts';
import { formatSpread, ratioByRound } from './lib/stats.ts';

const ROWS = 100;
const BODY_BYTES = 1024;
const CLIENTS = 1000;
/** Calls in one sample, so many that the cost of reading the clock is negligible. */
const SAMPLE_CALLS = 1000;
const MS_TO_NS = 1e6;

export const functions: Scenario = {
  name: 'functions',
  summary: 'the pure functions of the hot path, nanoseconds a call',
  defaults: { rounds: 7, seconds: 0.3 },
  run,
};

/** One call. The result is used, so that the compiler cannot remove the call. */
type Call = () => { length: number } | boolean;

/** A function and its alternative; `units` of work in one call, 1 by default. */
type Pair = [name: string, call: Call, plainName: string, plain: Call, units?: number];

const HEADERS = [
  ...['host', 'hooks.example.org', 'user-agent', 'GitHub-Hookshot/044aadd', 'content-length', '1024'],
  ...['accept', '*/*', 'content-type', 'application/json', 'x-github-event', 'push'],
  ...['x-github-delivery', '72d3162e-cc78-11e3-81ab-4c9367dc0958', 'x-hub-signature-256', `sha256=${'5a'.repeat(32)}`],
  ...['x-github-hook-id', '292430182', 'x-forwarded-proto', 'https'],
];

async function run(context: BenchContext): Promise<BenchOutcome> {
  // As in a serving process: a class of ioredis, which this program loads too, makes methods of strings slow.
  restoreStringMethods();
  const pairs = await makePairs();
  const values = new Map<string, number[]>();
  for (let round = 1; round <= context.rounds; round++) {
    for (const pair of pairs)
      for (const [name, ns] of await measurePair(pair, round === 1, context))
        values.set(name, [...(values.get(name) ?? []), ns]);
    context.say(`round ${round} of ${context.rounds} done`);
  }
  const of = (name: string) => values.get(name)!;
  const ratios = pairs.map(([to, , plain]) => ({ of: plain, to, values: ratioByRound(of(plain), of(to)) }));
  return {
    tables: [
      {
        header: ['function', 'ns', 'beside it', 'ns', 'times'],
        rows: ratios.map(({ of: plain, to, values: times }) => [
          to,
          formatSpread(of(to)),
          plain,
          formatSpread(of(plain)),
          formatSpread(times),
        ]),
      },
    ],
    measures: [...values].map(([name, ns]) => ({ name, unit: 'ns', values: ns })),
    ratios,
    ratiosInTables: true,
    notes: [
      `Medians of samples of ${SAMPLE_CALLS.toLocaleString('en-GB')} calls; a value a round. A ratio above 1 means that the function of Weir is faster.`,
    ],
  };
}

/** Measures both in turn in one tinybench run; resolves with nanoseconds per unit. */
async function measurePair(
  [name, call, plainName, plain, units = 1]: Pair,
  first: boolean,
  { seconds, signal }: BenchContext,
): Promise<[string, number][]> {
  signal.throwIfAborted();
  const sampleCalls = Math.ceil(SAMPLE_CALLS / units);
  // The first round starts with a warm-up, so that both functions are compiled before measuring.
  const warmup = first ? { warmupTime: 300 } : { warmup: false };
  const bench = new Bench({ time: seconds * 1000, throws: true, ...warmup });
  for (const [each, work] of Object.entries({ [name]: call, [plainName]: plain }))
    bench.add(
      each,
      () => {
        const startMs = performance.now();
        let used = 0;
        for (let i = 0; i < sampleCalls; i++) used += use(work());
        const ms = performance.now() - startMs;
        if (used === 0) throw new Error(`${each} returned nothing`);
        return { overriddenDuration: ms / (sampleCalls * units), overriddenIterationCost: ms };
      },
      { async: false },
    );
  const tasks = await bench.run();
  return tasks.map(({ name, result }) => {
    if (result.state !== 'completed') throw new Error(`${name} ended as ${result.state}`);
    return [name, result.latency.p50 * MS_TO_NS];
  });
}

function use(result: { length: number } | boolean): number {
  return typeof result === 'boolean' ? 1 : result.length;
}

async function makePairs(): Promise<Pair[]> {
  const encoder = new CopyEncoder();
  const rows = makeRows();
  const nextRandom = randomSource();
  const lines = new HeaderLines();
  const limiter = new MemoryLimiter(100_000, () => performance.now());
  const policy = { name: 'ingest', max: 1_000_000_000, windowSeconds: 60 } as const;
  const keys = Array.from({ length: CLIENTS }, (_, i) => `192.0.${i >> 8}.${i & 255}`);
  const counts = new Map<string, number>();
  let at = 0;
  const nextKey = () => keys[at++ % CLIENTS]!;
  const ids = keys.map(() => randomUUID());
  const byId = new Map(ids.map((id) => [id, { id }]));
  const directory = new Directory(async () => [...byId.values()]);
  await directory.preload();
  directory.recordHeartbeat(0);
  const nextId = () => ids[at++ % CLIENTS]!;
  const [webhookId] = ids as [string];
  const timeMs = 1_800_000_000_000;
  const body = Buffer.from(benchBody(BODY_BYTES));
  const stored = { headers: lines.encode(HEADERS, []), contentType: 'application/json', eventType: null };
  const event = { filter: 1, webhook: 'github', ...stored, bytes: body.length, body };
  const leased = `${webhookId}.${webhookId}.${webhookId}.leased.pending.1.1.7.${timeMs}.${timeMs + 30_000}.github`;
  const row = { leased, eventType: 'push', contentType: 'application/json', headers: 'laccept: */*', body: `l${body}` };
  return [
    [
      'CopyEncoder.encode, a row of 1 KiB',
      () => encoder.encode(rows),
      'JSON.stringify of it, body in base64',
      () => rows.map(rowAsJson).join('\n'),
      ROWS,
    ],
    ['uuidv7 and its text', () => uuidText(uuidv7(timeMs, nextRandom())), 'crypto.randomUUID', () => randomUUID()],
    [
      'presentedSignature',
      () => presentedSignature(HEADERS, null).kind,
      'a regular expression and Buffer.from',
      () => plainSignature(HEADERS),
    ],
    [
      'HeaderLines.encode',
      () => lines.encode(HEADERS, []),
      'JSON.stringify of the pairs, nothing left out',
      () => JSON.stringify(HEADERS),
    ],
    [
      `MemoryLimiter.take, ${CLIENTS} clients`,
      () => limiter.take(nextKey(), policy).allowed,
      'a Map of counts, no window',
      () => {
        const key = nextKey();
        counts.set(key, (counts.get(key) ?? 0) + 1);
        return true;
      },
    ],
    [
      `Directory.find, ${CLIENTS} webhooks`,
      () => (directory.find(nextId(), 0) as { id: string }).id,
      'Map.get, no check whether it is current',
      () => byId.get(nextId())!.id,
    ],
    [
      'dedupeKey',
      () => dedupeKey('72d3162e-cc78-11e3-81ab-4c9367dc0958'),
      'createHash of node:crypto',
      () => createHash('sha256').update('72d3162e-cc78-11e3-81ab-4c9367dc0958').digest(),
    ],
    [
      'storedText, the answer',
      () => storedText(webhookId, webhookId, isoTime(timeMs + (at++ % 900)), 1024, ''),
      'JSON.stringify of it',
      () => {
        const received_at = new Date(timeMs + (at++ % 900)).toISOString();
        return JSON.stringify({ id: webhookId, webhook_id: webhookId, received_at, bytes: 1024 });
      },
    ],
    [
      'judgeEvent, 1 KiB',
      () => judgeEvent('body.action == "opened"', event).verdict > 0,
      'JSON.parse and a comparison',
      () => JSON.parse(body.toString()).action === 'opened',
    ],
    ['parseLeased, the row of a claim', () => parseLeased(row).id, 'String.split alone', () => leased.split('.')],
  ];
}

function makeRows(): EventRow[] {
  const sourceIp = inetBytes('192.0.2.1');
  const webhookId = randomBytes(16);
  const headers = new HeaderLines().encode(HEADERS, []);
  return Array.from({ length: ROWS }, () => ({
    id: uuidv7(1_800_000_000_000, randomBytes(16)),
    webhookId,
    receivedAtMs: 1_800_000_000_000,
    sourceIp,
    headers,
    contentType: 'application/json',
    eventType: 'push',
    body: randomBytes(BODY_BYTES),
    orderKeys: null,
    key: null,
  }));
}

function rowAsJson({ id, headers, contentType, body }: EventRow): string {
  return JSON.stringify({
    id: uuidText(id),
    headers: Buffer.from(headers).toString(),
    contentType,
    body: (body as Buffer).toString('base64'),
  });
}

function plainSignature(headers: readonly string[]): Uint8Array {
  const value = headers[headers.indexOf('x-hub-signature-256') + 1]!;
  return Buffer.from(/^sha256=([0-9a-f]{64})$/i.exec(value)?.[1] ?? '', 'hex');
}
