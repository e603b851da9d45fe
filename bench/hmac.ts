/**
 * Scenario `hmac`: signatures verified inline on the event loop, compared with Weir's thread pool (Verifier and
 * workers/hmac.ts).
 *
 * The figure is the main-thread time per body, because all other work waits for the main thread. A batch is what one turn of
 * the event loop receives. Two batches are in flight, so that a thread always finds the next one, as under load.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { Bench } from 'tinybench';
import type { Keyring } from '../server/model/signatures/check.ts';
import { Verifier } from '../server/receive/ingest/verify.ts';
import type { Verdict } from '../server/receive/ingest/verify-thread.ts';
import type { BenchContext, Outcome, Scenario } from './lib/outcome.ts';
import { hmacWorkerFile } from './lib/paths.ts';
import { formatNumber, ratioByRound, spreadOf } from './lib/stats.ts';
import { mainThreadMs } from './lib/thread-clock.ts';

const BATCH_ITEMS = [1, 8, 32, 128];
const BODY_BYTES = [256, 1024, 16_384, 262_144, 1_048_576];
/** Length of one sample, so long that the cost of reading the clock is negligible. */
const SAMPLE_MS = 40;
const BATCHES_UNDER_WAY = 2;
const MS_TO_US = 1000;

export const hmac: Scenario = {
  name: 'hmac',
  summary: 'main-thread time to verify a body, inline or by the thread pool',
  defaults: { rounds: 5, seconds: 0.25 },
  run,
};

interface Body {
  bytes: Uint8Array<SharedArrayBuffer>;
  digest: Uint8Array;
}

/** Verifies a batch that arrived in one turn. */
type Verify = (batch: readonly Body[]) => Promise<void>;

/** One way at one batch size and one body size, with one value per round. */
interface Cell {
  way: 'inline' | 'pool';
  items: number;
  bodyBytes: number;
  /** Main-thread time per body, in microseconds. */
  mainUs: number[];
  bodiesPerSecond: number[];
}

async function run(context: BenchContext): Promise<Outcome> {
  const secret = randomBytes(32);
  const keyring: Keyring = { algorithm: 'hmac-sha256', keys: [secret] };
  let failed: Error | null = null;
  const verifier = new Verifier({
    workerFile: hmacWorkerFile,
    threads: 1,
    timeoutMs: 60_000,
    observer: {
      batch: () => {},
      threadFailed: (error) => {
        failed = error;
      },
    },
  });
  context.undo(() => verifier.close());
  const ways: [Cell['way'], Verify][] = [
    ['inline', (batch) => verifyInline(batch, secret)],
    ['pool', (batch) => verifyByPool(batch, verifier, keyring)],
  ];
  const cells: Cell[] = [];
  for (const bodyBytes of BODY_BYTES) {
    const bodies = makeBodies(Math.max(...BATCH_ITEMS), bodyBytes, secret);
    for (const items of BATCH_ITEMS) {
      const pair = ways.map(([way]): Cell => ({ way, items, bodyBytes, mainUs: [], bodiesPerSecond: [] }));
      for (let round = 0; round < context.rounds; round++)
        await measureInTurns(pair, ways, bodies.slice(0, items), round === 0, context);
      cells.push(...pair);
      context.say(
        `${sizeText(bodyBytes)}, ${items} a batch: inline ${usText(pair[0]!)} us, pool ${usText(pair[1]!)} us a body`,
      );
    }
  }
  return summarise(cells, failed);
}

/** One round of one pair: tinybench repeats samples for the window. The duration of a sample is the main-thread time per body. */
async function measureInTurns(
  pair: readonly Cell[],
  ways: readonly [string, Verify][],
  batch: readonly Body[],
  first: boolean,
  { seconds, signal }: BenchContext,
): Promise<void> {
  const warmup = first ? { warmupTime: 100 } : { warmup: false };
  const bench = new Bench({
    time: seconds * 1000,
    iterations: 2,
    throws: true,
    signal,
    ...warmup,
    warmupIterations: 1,
  });
  const totals = pair.map(() => ({ bodies: 0, mainMs: 0, wallMs: 0 }));
  ways.forEach(([way, verify], i) => {
    bench.add(
      way,
      async () => {
        signal.throwIfAborted();
        const sample = await takeSample(verify, batch);
        const total = totals[i]!;
        total.bodies += sample.bodies;
        total.mainMs += sample.mainMs;
        total.wallMs += sample.wallMs;
        return { overriddenDuration: sample.mainMs / sample.bodies, overriddenIterationCost: sample.wallMs };
      },
      { async: true },
    );
  });
  await bench.run();
  pair.forEach((cell, i) => {
    const { bodies, mainMs, wallMs } = totals[i]!;
    cell.mainUs.push((mainMs / bodies) * MS_TO_US);
    cell.bodiesPerSecond.push((bodies / wallMs) * 1000);
  });
}

async function takeSample(verify: Verify, batch: readonly Body[]) {
  let bodies = 0;
  const mainMs = mainThreadMs();
  const startMs = performance.now();
  const untilMs = startMs + SAMPLE_MS;
  const again = async () => {
    do {
      await verify(batch);
      bodies += batch.length;
    } while (performance.now() < untilMs);
  };
  await Promise.all(Array.from({ length: BATCHES_UNDER_WAY }, again));
  const wallMs = performance.now() - startMs;
  return { bodies, wallMs, mainMs: mainThreadMs() - mainMs };
}

/** The simple handler: verifies one request after another, then yields to the next turn. */
async function verifyInline(batch: readonly Body[], secret: Uint8Array): Promise<void> {
  for (const { bytes, digest } of batch)
    if (!timingSafeEqual(createHmac('sha256', secret).update(bytes).digest(), digest)) throw new Error('no match');
  await new Promise((resolve) => setImmediate(resolve));
}

async function verifyByPool(batch: readonly Body[], verifier: Verifier, keyring: Keyring): Promise<void> {
  const verdicts = await Promise.all(
    batch.map(
      ({ bytes, digest }) =>
        new Promise<Verdict>((settleVerdict) =>
          verifier.verify({
            body: bytes,
            presented: { digests: [digest], prefix: '', suffix: '' },
            others: [],
            keyring,
            settleVerdict,
          }),
        ),
    ),
  );
  if (verdicts.some(({ kind }) => kind !== 'verified')) throw new Error('no match');
}

/** Bodies next to each other in shared memory, as in a slab. */
function makeBodies(count: number, bodyBytes: number, secret: Uint8Array): Body[] {
  const memory = new SharedArrayBuffer(count * bodyBytes);
  return Array.from({ length: count }, (_, i) => {
    const bytes = new Uint8Array(memory, i * bodyBytes, bodyBytes);
    bytes.set(randomBytes(bodyBytes));
    return { bytes, digest: createHmac('sha256', secret).update(bytes).digest() };
  });
}

function summarise(cells: readonly Cell[], failed: Error | null): Outcome {
  const find = (way: string, items: number, bodyBytes: number) =>
    cells.find((cell) => cell.way === way && cell.items === items && cell.bodyBytes === bodyBytes)!;
  const named = ({ way, items, bodyBytes }: Cell) => `${way}, ${items} a batch, ${sizeText(bodyBytes)}`;
  const columns = [...BATCH_ITEMS.map((items) => `pool, ${items} a batch`)];
  return {
    tables: [
      {
        header: ['main thread, us a body', 'inline', ...columns],
        rows: BODY_BYTES.map((size) => [
          sizeText(size),
          usText(find('inline', 32, size)),
          ...BATCH_ITEMS.map((items) => usText(find('pool', items, size))),
        ]),
      },
      {
        header: ['bodies/s', 'inline', ...columns],
        rows: BODY_BYTES.map((size) => [
          sizeText(size),
          rateText(find('inline', 32, size)),
          ...BATCH_ITEMS.map((items) => rateText(find('pool', items, size))),
        ]),
      },
    ],
    measures: cells.flatMap((cell) => [
      { name: `${named(cell)}: main thread`, unit: 'us a body', values: cell.mainUs },
      { name: `${named(cell)}: throughput`, unit: 'bodies/s', values: cell.bodiesPerSecond },
    ]),
    ratios: BODY_BYTES.flatMap((size) =>
      [1, 32].map((items) => {
        const [inline, pool] = [find('inline', items, size), find('pool', items, size)];
        return {
          of: `main thread, ${named(pool)}`,
          to: named(inline),
          values: ratioByRound(pool.mainUs, inline.mainUs),
        };
      }),
    ),
    goals: [],
    notes: [
      'Processor time of the main thread alone, from /proc/PID/task/TID/schedstat; one thread in the pool. A ratio below 1 means that the pool takes work off the main thread.',
      'Inline is shown at 32 a batch; at 1 a batch it also includes a turn of the event loop (1 to 2 us), as the pool does. All cells are in bench/results.',
    ],
    faults: failed === null ? [] : [`a thread failed: ${failed.message}`],
  };
}

function usText({ mainUs }: Cell): string {
  return formatNumber(spreadOf(mainUs).median);
}

function rateText({ bodiesPerSecond }: Cell): string {
  return formatNumber(spreadOf(bodiesPerSecond).median);
}

function sizeText(bytes: number): string {
  if (bytes >= 1_048_576) return `${bytes / 1_048_576} MiB`;
  return bytes >= 1024 ? `${bytes / 1024} KiB` : `${bytes} B`;
}
