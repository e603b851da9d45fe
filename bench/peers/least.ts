/**
 * The lower bound of a durable, verified answer: what Weir does with each request for one webhook, made of the same parts, and nothing else.
 *
 *     field lines, body to shared memory  ->  a thread verifies all bodies of a turn  ->  one COPY of all that wait  ->  202
 *
 * It has no routes, limits, deadlines, metrics, log, rejections or deduplication, and ends at the first failure.
 * Arguments: port, connection string, secret.
 */

import uWS from 'uWebSockets.js';
import type { MessagePort } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { builtFile } from '../../server/base/files/build.ts';
import { ByteBudget, type HeldBody, SlabArena } from '../../server/base/http/memory.ts';
import { inetBytes } from '../../server/model/address.ts';
import type { Keyring } from '../../server/model/signatures/check.ts';
import { HeaderLines } from '../../server/model/signatures/stored-headers.ts';
import { CopyLane } from '../../server/receive/ingest/copy-lane.ts';
import { randomSource, storedText } from '../../server/receive/ingest/store.ts';
import { type SignatureVerdict, VerifyThread, verdictOf } from '../../server/receive/ingest/verify-thread.ts';
import type { EventRow } from '../../server/store/copy/rows.ts';
import { isoTime, uuidBytes, uuidText, uuidv7 } from '../../server/store/ids.ts';

const SIGNATURE = 'x-hub-signature-256';
const SIGNATURE_START = 'sha256='.length;
const MEMORY_BYTES_MAX = 1e9;
const COMMIT_TIMEOUT_MS = 10_000;
const SOURCE_IP = inetBytes('127.0.0.1');

const [port, conninfo, secret] = process.argv.slice(2) as [string, string, string];
const keyring: Keyring = { algorithm: 'hmac-sha256', keys: [Buffer.from(secret)] };
const arena = new SlabArena(new ByteBudget(MEMORY_BYTES_MAX));
const lines = new HeaderLines();
const nextRandom = randomSource();
const lane = new CopyLane({ conninfo, commitTimeoutMs: COMMIT_TIMEOUT_MS }, (reason) => {
  if (reason !== '') throw new Error(reason);
});

/** A request from its first header to its answer; one object for the thread and for the commit. */
class Request {
  aborted = false;
  readonly keyring = keyring;
  readonly #res: uWS.HttpResponse;
  readonly #webhookId: string;
  readonly #headers: string[] = [];
  readonly #chunks: Uint8Array[] = [];
  #bytes = 0;
  #signature = '';
  #held!: HeldBody;

  constructor(res: uWS.HttpResponse, req: uWS.HttpRequest) {
    this.#res = res;
    this.#webhookId = req.getParameter(0)!;
    req.forEach((name, value) => {
      this.#headers.push(name, value);
      if (name === SIGNATURE) this.#signature = value.slice(SIGNATURE_START);
    });
    res.onAborted(() => {
      this.aborted = true;
    });
    res.onData((chunk, isLast) => this.#onChunk(new Uint8Array(chunk), isLast));
  }

  get body(): HeldBody['bytes'] {
    return this.#held.bytes;
  }

  readonly others = [];

  get presented() {
    return { digests: [Buffer.from(this.#signature, 'hex')], prefix: '', suffix: '' };
  }

  #onChunk(chunk: Uint8Array, isLast: boolean): void {
    this.#bytes += chunk.length;
    // A chunk is valid during this call only.
    if (!isLast) return void this.#chunks.push(chunk.slice());
    this.#held = arena.hold(this.#chunks, chunk, this.#bytes)!;
    received.push(this);
    verifyNext();
  }

  takeVerdict({ kind }: SignatureVerdict): void {
    if (kind !== 'verified') throw new Error(`the signature is ${kind}`);
    verified.push(this);
  }

  row(): EventRow {
    const receivedAtMs = Date.now();
    return {
      id: uuidv7(receivedAtMs, nextRandom()),
      webhookId: uuidBytes(this.#webhookId),
      receivedAtMs,
      sourceIp: SOURCE_IP,
      headers: lines.encode(this.#headers, [SIGNATURE]),
      contentType: 'application/json',
      eventType: null,
      body: this.body,
      orderKeys: null,
      key: null,
    };
  }

  answer({ id, receivedAtMs }: EventRow): void {
    arena.release(this.#held);
    if (this.aborted) return;
    this.#res.cork(() => {
      this.#res.writeStatus('202 Accepted').writeHeader('content-type', 'application/json');
      this.#res.end(storedText(uuidText(id), this.#webhookId, isoTime(receivedAtMs), this.#bytes, ''));
    });
  }
}

let received: Request[] = [];
let verified: Request[] = [];
let scheduled = false;
let committing = false;

/** One message for all bodies of a turn, and the next one when it is answered. */
function verifyNext(): void {
  if (scheduled || thread.batch !== null || received.length === 0) return;
  scheduled = true;
  setImmediate(() => {
    scheduled = false;
    thread.send({ tasks: received, failed: null }, 0);
    received = [];
  });
}

async function commitNext(): Promise<void> {
  if (committing || verified.length === 0) return;
  committing = true;
  const requests = verified;
  verified = [];
  const rows = requests.map((request) => request.row());
  const outcome = await lane.commit(rows);
  if (outcome.kind !== 'committed') throw new Error(`not committed: ${outcome.kind}`);
  committing = false;
  void commitNext();
  for (const [i, request] of requests.entries()) request.answer(rows[i]!);
}

const threads = new Piscina<MessagePort, void>({
  filename: builtFile('workers/hmac.js'),
  minThreads: 1,
  maxThreads: 1,
});
const thread = new VerifyThread(threads, {
  verified({ tasks }, verdicts) {
    for (const [i, task] of tasks.entries()) task.takeVerdict(verdictOf(verdicts[i]!));
    verifyNext();
    void commitNext();
  },
  ended(error) {
    throw error;
  },
});
await lane.start();
process.stdin.resume().on('end', () => process.exit());
uWS
  .App()
  .post('/in/:id', (res, req) => void new Request(res, req))
  .listen('127.0.0.1', Number(port), (socket) => {
    if (socket === false) throw new Error(`cannot listen on port ${port}`);
    console.log('listening');
  });
