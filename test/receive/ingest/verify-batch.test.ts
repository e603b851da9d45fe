/** Requests of several webhooks that a thread verifies together. */
import { createHmac } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Keyring, REQUEST_NUMBERS } from '../../../server/model/signatures/check.ts';
import { Verifier } from '../../../server/receive/ingest/verify.ts';
import type { SignatureVerdict } from '../../../server/receive/ingest/verify-thread.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';

let directory: string;
let verifier: Verifier;

/** The real thread, which also writes how many bytes the arrays of its first batch have, without the bodies. */
beforeEach(async () => {
  directory = temporaryDirectory();
  const workerFile = join(directory, 'worker.mjs');
  const real = pathToFileURL(resolve(import.meta.dirname, '../../../dist/workers/hmac.js'));
  await writeFile(
    workerFile,
    `import { writeFileSync } from 'node:fs';
     import serve, { verifyBatch } from ${JSON.stringify(real)};
     const buffersOf = (value) => ArrayBuffer.isView(value) ? [value.buffer]
       : value instanceof Object ? Object.values(value).flatMap(buffersOf) : [];
     export default (port) => serve(port, (batch) => {
       const bytes = [...new Set(buffersOf(batch))].reduce((sum, { byteLength }) => sum + byteLength, 0);
       writeFileSync(${JSON.stringify(join(directory, 'bytes'))}, String(bytes));
       return verifyBatch(batch);
     });`,
  );
  const observer = { batch: () => {}, threadFailed: () => {} };
  verifier = new Verifier({ workerFile, threads: 1, timeoutMs: 10_000, observer });
});
afterEach(() => verifier.close());

/** @param signedBy the key of the signature */
function verify(keyring: Keyring, signedBy: Uint8Array) {
  const body = new Uint8Array(new SharedArrayBuffer(2)).fill(120);
  const digest = createHmac(keyring.algorithm.slice('hmac-'.length), signedBy).update(body).digest();
  const presented = { digests: [digest], prefix: '', suffix: '' };
  return new Promise<SignatureVerdict>((takeVerdict) =>
    verifier.verify({ body, presented, others: [], keyring, takeVerdict }),
  );
}

test('each request is verified with the keys of its own webhook', async () => {
  const [current, previous, other] = [Buffer.from('current'), Buffer.from('the previous one'), Buffer.alloc(200, 'o')];
  const rotated: Keyring = { algorithm: 'hmac-sha256', keys: [current, previous] };
  const sha1: Keyring = { algorithm: 'hmac-sha1', keys: [other] };
  const sha512: Keyring = { algorithm: 'hmac-sha512', keys: [current] };
  const verdicts = await Promise.all([
    verify(rotated, current),
    verify(rotated, previous),
    verify(sha1, other),
    verify(rotated, other),
    verify(sha512, current),
    verify(sha1, current),
    verify(rotated, previous),
  ]);
  const by = (keyIndex: number) => ({ kind: 'verified', keyIndex });
  const mismatch = { kind: 'mismatch' };
  expect(verdicts).toEqual([by(0), by(1), by(0), mismatch, by(0), mismatch, by(1)]);
});

test('a message has the keys of its webhooks and not the memory around them', async () => {
  const webhooks = 50;
  await Promise.all(
    Array.from({ length: webhooks }, (_, i) => {
      // A Buffer this short is a part of a pool of 8 KB, and what is between two of them lets each be in another one.
      const key = Buffer.from(`the secret of webhook ${i}`);
      Buffer.allocUnsafe(Buffer.poolSize / 2 - 1);
      Buffer.allocUnsafe(Buffer.poolSize / 2 - 1);
      return verify({ algorithm: 'hmac-sha256', keys: [key] }, key);
    }),
  );
  expect(Number(await readFile(join(directory, 'bytes'), 'utf8'))).toBeLessThan(webhooks * 200);
});

test('a message has the keys of each webhook once, whatever the order of the requests', async () => {
  const keys = [Buffer.alloc(60, 'a'), Buffer.alloc(60, 'b')];
  const keyrings = keys.map((key): Keyring => ({ algorithm: 'hmac-sha256', keys: [key] }));
  const requests = 100;
  const verdicts = await Promise.all(
    Array.from({ length: requests }, (_, i) => verify(keyrings[i % 2]!, keys[i % 2]!)),
  );
  expect(new Set(verdicts.map(({ kind }) => kind))).toEqual(new Set(['verified']));
  const [numbers, signature] = [4 * REQUEST_NUMBERS, 32];
  const bytes = Number(await readFile(join(directory, 'bytes'), 'utf8'));
  expect(bytes).toBe(requests * (numbers + signature) + 2 * (3 * 4 + 60));
});
