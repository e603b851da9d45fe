/** One thread that verifies signatures: its port, the messages of a batch, and the verdicts. */
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import type { Piscina } from 'piscina';
import type { VerifyBatch } from '../../../workers/hmac.ts';
import { algorithms, type Keyring, REQUEST_NUMBERS } from '../../model/signatures/check.ts';
import type { PresentedSignatures } from '../../model/signatures/scheme.ts';

/** `keyIndex`: index of the key in the keyring. */
export type SignatureVerdict = { kind: 'verified'; keyIndex: number } | { kind: 'mismatch' } | { kind: 'unavailable' };

/** A body to verify with every key (current first) against every presented signature. */
export interface VerifyTask {
  /** Must not change until the verdict: threads read it in place. */
  readonly body: Uint8Array<SharedArrayBuffer>;
  readonly presented: Pick<PresentedSignatures, 'digests' | 'prefix' | 'suffix'>;
  /** Other texts around the body that the sender may have signed. */
  readonly others: readonly Pick<PresentedSignatures, 'prefix' | 'suffix'>[];
  /** The same object for all requests of a webhook, so that a batch of one webhook holds it once. */
  readonly keyring: Keyring;
  /** Called once, in a later turn. Must not throw. */
  takeVerdict(verdict: SignatureVerdict): void;
}

/** Requests that are verified together. */
export interface Batch {
  readonly tasks: readonly VerifyTask[];
  /** Null: the requests are verified for the first time. Otherwise the batch has one request, which is verified again: of this failed batch. */
  readonly failed: FailedBatch | null;
}

/** A batch whose requests are verified again one by one. */
export interface FailedBatch {
  /** Number of threads that failed on the batch or on one of its requests. */
  failures: number;
}

/** A thread and its port. It verifies one batch at a time. */
export class VerifyThread {
  readonly port: MessagePort;
  readonly #controller = new AbortController();
  /** Null: the thread is free. */
  batch: Batch | null = null;
  dueMs = 0;

  constructor(
    pool: Piscina<MessagePort, void>,
    on: { verified: (batch: Batch, verdicts: Uint8Array) => void; ended: (error: Error) => void },
  ) {
    const { port1, port2 } = new MessageChannel();
    this.port = port1;
    // Verdicts travel in messages, never through shared memory: a thread that was given up and resumes can read old bodies, but cannot
    // change a verdict, because its port is closed.
    port1.on('message', (verdicts: Uint8Array) => {
      const batch = this.batch!;
      this.batch = null;
      on.verified(batch, verdicts);
    });
    const ended = (error: Error) => {
      port1.close();
      on.ended(error);
    };
    pool
      .run(port2, { transferList: [port2], signal: this.#controller.signal })
      .then(() => ended(new Error('the thread ended')), ended);
  }

  send(batch: Batch, dueMs: number): void {
    this.batch = batch;
    this.dueMs = dueMs;
    this.port.postMessage(toMessage(batch.tasks));
  }

  /** Piscina terminates the thread and starts another one. */
  abort(): void {
    this.#controller.abort();
  }
}

/** @param answer the thread's byte for a request: 0 for a mismatch, else the index of the key plus 1 */
export function verdictOf(answer: number): SignatureVerdict {
  if (answer === 0) return mismatch;
  return answer === 1 ? verifiedByCurrent : { kind: 'verified', keyIndex: answer - 1 };
}

export const noVerdict: SignatureVerdict = { kind: 'unavailable' };
const mismatch: SignatureVerdict = { kind: 'mismatch' };
const verifiedByCurrent: SignatureVerdict = { kind: 'verified', keyIndex: 0 };

function toMessage(tasks: readonly VerifyTask[]): VerifyBatch {
  const memories = new Latest<SharedArrayBuffer>();
  const keyrings = new Latest<Keyring>();
  const requests = new Uint32Array(tasks.length * REQUEST_NUMBERS);
  const signatures: Uint8Array[] = [];
  let hasAffixes = false;
  let at = 0;
  for (const { body, keyring, presented, others } of tasks) {
    requests[at++] = memories.indexOf(body.buffer);
    requests[at++] = body.byteOffset;
    requests[at++] = body.length;
    requests[at++] = keyrings.indexOf(keyring);
    requests[at++] = presented.digests.length;
    requests[at++] = 1 + others.length;
    for (const digest of presented.digests) signatures.push(digest);
    if (presented.prefix !== '' || presented.suffix !== '') hasAffixes = true;
  }
  const affixes = hasAffixes
    ? tasks.flatMap(({ presented, others }) => [presented, ...others].flatMap(({ prefix, suffix }) => [prefix, suffix]))
    : null;
  return { memories: memories.all, requests, signatures: joined(signatures), affixes, ...flat(keyrings.all) };
}

function flat(keyrings: readonly Keyring[]): Pick<VerifyBatch, 'keyrings' | 'keys'> {
  const numbers: number[] = [];
  const all: Uint8Array[] = [];
  for (const { algorithm, keys } of keyrings) {
    numbers.push(algorithms.indexOf(algorithm), keys.length);
    for (const key of keys) {
      numbers.push(key.length);
      all.push(key);
    }
  }
  return { keyrings: Uint32Array.from(numbers), keys: joined(all) };
}

/** Joins the parts in memory of their own. A small Buffer is a part of a pool of 8 KB, and a message would copy the whole pool. */
function joined(parts: readonly Uint8Array[]): Uint8Array {
  let bytes = 0;
  for (const part of parts) bytes += part.length;
  const whole = new Uint8Array(bytes);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Number of latest objects to compare. Comparing all 256 webhooks of a batch would cost more than a message that has one twice. */
const LOOKED_AT_MAX = 8;

/** Objects in order of use. Most are distinct: many requests of a batch share one of the latest objects, and get its index. */
class Latest<T> {
  readonly all: T[] = [];

  indexOf(item: T): number {
    const { all } = this;
    const first = Math.max(0, all.length - LOOKED_AT_MAX);
    for (let index = all.length - 1; index >= first; index--) if (all[index] === item) return index;
    return all.push(item) - 1;
  }
}
