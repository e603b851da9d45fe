/** Threads that hang, throw or exit: the requests of a batch are retried one by one; later requests find working threads. */
import { readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Verifier } from '../../server/receive/ingest/verify.ts';
import type { SignatureVerdict } from '../../server/receive/ingest/verify-thread.ts';
import { signatureOf } from '../helpers/requests.ts';
import { temporaryDirectory } from '../helpers/settings.ts';
import { until } from '../helpers/wait.ts';

const HANG = 'for (;;);';
/** Longer than the start of a thread on a busy machine: only a thread that hangs may exceed it, and is waited for. */
const timeoutOf = (fault: string) => (fault === HANG ? 5_000 : 60_000);
const secret = Buffer.from('a secret between friends');
let directory: string;
let faultsLeft: string;
let failures: Error[];
let verifier: Verifier;

const GUILTY = 'guilty';

/** The real thread, which first fails as often as a file says, and always on a batch with the body GUILTY. */
async function startVerifier(fault: string, faults: number, threads: number): Promise<void> {
  await writeFile(faultsLeft, String(faults));
  const workerFile = join(directory, 'worker.mjs');
  const real = pathToFileURL(resolve(import.meta.dirname, '../../dist/workers/hmac.js'));
  await writeFile(
    workerFile,
    `import { readFileSync, writeFileSync } from 'node:fs';
     import serve, { verifyBatch } from ${JSON.stringify(real)};
     export default (port) => serve(port, (batch) => {
       const left = Number(readFileSync(${JSON.stringify(faultsLeft)}, 'utf8'));
       const texts = batch.memories.map((memory) => Buffer.from(memory).toString());
       if (left === 0 && !texts.includes(${JSON.stringify(GUILTY)})) return verifyBatch(batch);
       writeFileSync(${JSON.stringify(faultsLeft)}, String(Math.max(0, left - 1)));
       ${fault}
     });`,
  );
  const observer = { batch: () => {}, threadFailed: (error: Error) => failures.push(error) };
  verifier = new Verifier({ workerFile, threads, timeoutMs: timeoutOf(fault), observer });
}

beforeEach(() => {
  directory = temporaryDirectory();
  faultsLeft = join(directory, 'faults-left');
  failures = [];
});
afterEach(async () => {
  vi.restoreAllMocks();
  await verifier.close();
});

function verify(text: string, { signed = text } = {}) {
  const body = new Uint8Array(new SharedArrayBuffer(Buffer.byteLength(text)));
  body.set(Buffer.from(text));
  const digest = Buffer.from(signatureOf(secret.toString(), signed).slice('sha256='.length), 'hex');
  const presented = { digests: [digest], prefix: '', suffix: '' };
  const keyring = { algorithm: 'hmac-sha256', keys: [secret] } as const;
  return new Promise<SignatureVerdict>((takeVerdict) =>
    verifier.verify({ body, presented, others: [], keyring, takeVerdict }),
  );
}

const faults = [
  ['hangs', HANG],
  ['throws', 'throw new Error("broken");'],
  ['ends', 'process.exit(1);'],
  ['runs out of memory', 'for (const kept = []; ; ) kept.push(new Array(100_000).fill(kept.length));'],
] as const;

test.each(faults)('a batch whose thread %s is verified by another one', async (_how, fault) => {
  await startVerifier(fault, 1, 1);
  const verdicts = await Promise.all([verify('one'), verify('two', { signed: 'other' })]);
  expect(verdicts).toEqual([{ kind: 'verified', keyIndex: 0 }, { kind: 'mismatch' }]);
  expect(failures.length).toBeGreaterThanOrEqual(1);
});

test.each(faults)('of a batch whose thread %s, only the request at fault is refused', async (_how, fault) => {
  await startVerifier(fault, 0, 2);
  const verdicts = await Promise.all([
    verify('one'),
    verify(GUILTY),
    verify('two', { signed: 'other' }),
    verify('three'),
  ]);
  expect(verdicts).toEqual([
    { kind: 'verified', keyIndex: 0 },
    { kind: 'unavailable' },
    { kind: 'mismatch' },
    { kind: 'verified', keyIndex: 0 },
  ]);
  expect(verifier.queued).toBe(0);
  expect(await verify('four')).toEqual({ kind: 'verified', keyIndex: 0 });
  await until(() => verifier.threads === 2);
});

test('a batch with many requests at fault is given up after four failures, and does not hold up new requests', async () => {
  await startVerifier('throw new Error("broken");', 0, 1);
  const batch = Promise.all([GUILTY, GUILTY, GUILTY, GUILTY, 'last'].map((text) => verify(text)));
  expect(await batch).toEqual(Array(5).fill({ kind: 'unavailable' }));
  expect(failures).toHaveLength(4);
  expect(await verify('next')).toEqual({ kind: 'verified', keyIndex: 0 });
});

test('a thread whose verdict arrived during a stall of the event loop longer than HMAC_TIMEOUT_MS is not ended', async () => {
  await startVerifier(HANG, 0, 1);
  await verify('one');
  const verdict = verify('two');
  await new Promise(setImmediate);
  vi.spyOn(performance, 'now').mockReturnValue(performance.now() + timeoutOf(HANG));
  // Longer than the interval of the checks.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, timeoutOf(HANG) / 4 + 100);
  expect(await verdict).toEqual({ kind: 'verified', keyIndex: 0 });
  expect(failures).toEqual([]);
});

test('requests behind a hung batch wait no longer than its two tries', async () => {
  await startVerifier(HANG, 2, 1);
  const startedMs = performance.now();
  const first = verify('one').then((verdict) => ({ verdict, ms: performance.now() - startedMs }));
  await until(async () => (await readFile(faultsLeft, 'utf8')) === '1');
  const later = verify('two');
  const { verdict, ms } = await first;
  expect(verdict).toEqual({ kind: 'unavailable' });
  expect(ms).toBeGreaterThanOrEqual(2 * timeoutOf(HANG) - 20);
  expect(await later).toEqual({ kind: 'verified', keyIndex: 0 });
});
