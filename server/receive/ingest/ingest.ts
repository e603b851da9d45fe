/**
 * POST /in/{webhook_id} and /in/{webhook_id}/batch, the main routes. The steps run in this order; the first one that fails
 * determines the answer:
 *
 *     accept   snapshot of headers and address (server.ts)             404, 405, 431
 *     limit    counts the client while the body arrives                429
 *     webhook  looks up the directory                                  404, 410, 422   (422: its scheme takes no batches)
 *     body     reads the whole body into a slab, up to the cap         413   (client gone: counted, no answer)
 *     verify   a thread checks the signature, batched per loop turn    403, 503   (503: no key decrypts a stored secret)
 *     lines    batch only: each line must be JSON                      413, 422
 *     commit   stores many requests together by binary COPY            503   (queue full, database unavailable)
 *     respond  one write                                               202   (200: a duplicate, not stored again)
 *
 * A Store (store.ts) does the last three: storeSingle stores a verified body as one event, storeBatch each line as an event.
 *
 * Each step calls the next one, at once where it need not wait. As one async function they cost more (figures in bench/NOTES.md).
 */
import type { BodyOutcome, BodyReader } from '../../base/http/body.ts';
import type { Exchange } from '../../base/http/exchange.ts';
import { type Problem, problem, problemLater } from '../../base/http/problem.ts';
import { setRateLimitFields } from '../../base/http/rate-limit.ts';
import type { Decision, Policy, RateLimiter } from '../../base/ratelimit/limiter.ts';
import { Stage } from '../../base/telemetry/stages.ts';
import { isGzip } from '../../model/signatures/gzip.ts';
import type { Directory } from '../../store/directory.ts';
import { answersValidation, answersVerified } from './handshake.ts';
import { type Inflated, Inflater, shared } from './inflate.ts';
import { type ReceivedRequest, refusalOf, type SignatureCheck, type SignatureOutcome } from './signature.ts';
import type { Store, VerifiedRequest } from './store.ts';
import { countRequest, type Webhook } from './webhook.ts';

export interface IngestParts {
  directory: Directory<Webhook>;
  limiter: RateLimiter;
  /** Default rate limit, shared by all webhooks without their own. */
  policy: Policy;
  /** WEBHOOK_MAX_PAYLOAD_BYTES */
  capBytes: number;
  checkSignature: SignatureCheck;
  /** Each line of a body is an event. */
  isBatch?: boolean;
  /** Called when a signature is refused. The body is released when this returns. `verdict`: kind of the outcome. */
  onRejected: (request: ReceivedRequest, verdict: SignatureOutcome['kind']) => void;
}

const RETRY_SECONDS = 1;
/** Longer than RETRY_SECONDS, because an operator first has to configure the right SECRETS_KEY. */
const SECRET_RETRY_SECONDS = 60;

/** Creates the handler of POST /in/{webhook_id}, or of its batches. @param store stores and answers verified requests, see store.ts */
export function createIngest(parts: IngestParts, store: Store): (exchange: Exchange) => void {
  const inflater = new Inflater();
  return (exchange) => new IngestRequest(exchange, parts, store, inflater).start();
}

/** One request on its way through the steps. */
class IngestRequest implements ReceivedRequest, VerifiedRequest {
  readonly exchange: Exchange;
  readonly #parts: IngestParts;
  readonly #store: Store;
  readonly #webhookId: string;
  /** From the cache, possibly outdated. */
  readonly #known: Webhook | undefined;
  readonly #reading: BodyReader;
  readonly #inflater: Inflater;
  #webhook: Webhook | null = null;
  #awaitsBody = false;
  /** The decompressed body; null: the body is not compressed, or nothing in it is read. */
  #inflated: Uint8Array | null = null;
  /** The decompressed body in shared memory; null: the sender signs the body as it is sent. */
  #signed: Uint8Array<SharedArrayBuffer> | null = null;

  constructor(exchange: Exchange, parts: IngestParts, store: Store, inflater: Inflater) {
    this.#inflater = inflater;
    this.exchange = exchange;
    this.#parts = parts;
    this.#store = store;
    this.#webhookId = exchange.parameters[0]!.toLowerCase();
    this.#known = parts.directory.known(this.#webhookId);
    const capBytes = this.#known?.capBytes ?? parts.capBytes;
    this.#reading = exchange.readBody(capBytes, () => this.#bodyEnded(), this.#known?.cell);
  }

  /** The current row; set from the step `webhook` on. */
  get webhook(): Webhook {
    return this.#webhook!;
  }

  /** The whole body; set from the step `verify` on, until `end`. */
  get body(): Uint8Array<SharedArrayBuffer> {
    return (this.#reading.outcome as BodyOutcome & { kind: 'complete' }).bytes;
  }

  get json(): Uint8Array {
    return this.#inflated ?? this.body;
  }

  get signed(): Uint8Array<SharedArrayBuffer> {
    return this.#signed ?? this.body;
  }

  start(): void {
    try {
      const decision = countRequest(this.#parts.limiter, this.#parts.policy, this.exchange, this.#known);
      if (decision instanceof Promise) decision.then((later) => this.#limit(later)).catch((error) => this.fail(error));
      else this.#limit(decision);
    } catch (error) {
      this.fail(error);
    }
  }

  #limit(decision: Decision): void {
    const { exchange } = this;
    setRateLimitFields(exchange, this.#known?.policy ?? this.#parts.policy, decision);
    exchange.clock.lap(Stage.limit);
    if (!decision.allowed) {
      if (this.#known !== undefined) this.#known.counter.touch().limited++;
      return this.#refuse(problemLater('rate_limited', decision.resetSeconds));
    }
    const found = this.#parts.directory.find(this.#webhookId, Date.now());
    if (found instanceof Promise) found.then((row) => this.#found(row)).catch((error) => this.fail(error));
    else this.#found(found);
  }

  /** @param webhook undefined: the database is unavailable; null: the webhook does not exist. */
  #found(webhook: Webhook | null | undefined): void {
    if (webhook === undefined) return this.#refuse(problemLater('database_unavailable', RETRY_SECONDS));
    if (webhook === null) return this.#refuse(problem('webhook_unknown'));
    if (!webhook.enabled) return this.#refuse(problem('webhook_disabled'));
    if (this.#parts.isBatch && !webhook.scheme.takesBatches) return this.#refuse(problem('batch_unsupported'));
    if (answersValidation(this.exchange, webhook)) return this.end();
    this.#webhook = webhook;
    this.#awaitsBody = true;
    if (this.#reading.outcome !== null) this.#verify(this.#reading.outcome);
  }

  #bodyEnded(): void {
    if (!this.#awaitsBody) return;
    try {
      this.#verify(this.#reading.outcome!);
    } catch (error) {
      this.fail(error);
    }
  }

  #verify(received: BodyOutcome): void {
    this.#awaitsBody = false;
    this.exchange.clock.lap(Stage.body);
    if (received.kind === 'aborted') return this.end();
    if (received.kind === 'too_large') return this.#refuse(this.#tooLarge());
    if (received.kind !== 'complete') return this.#refuse(problemLater(received.kind, RETRY_SECONDS));
    if (received.bytes.length > this.webhook.capBytes) return this.#refuse(this.#tooLarge());
    const { exchange, webhook } = this;
    if (!webhook.readsJson || !isGzip(received.bytes, () => exchange.header('content-encoding'))) return this.#check();
    this.#inflater.inflate(received.bytes, exchange.client.load, Date.now(), (outcome) => this.#decompressed(outcome));
  }

  #decompressed(outcome: Inflated): void {
    try {
      const { decompress } = this.webhook.scheme.definition;
      if (outcome.kind === 'inflated') {
        this.#inflated = outcome.bytes;
        if (decompress) this.#signed = shared(outcome.bytes);
      } else if (decompress && outcome.kind !== 'broken')
        return this.signatureChecked({ kind: outcome.kind === 'busy' ? 'unavailable' : 'body_too_complex' });
      this.#check();
    } catch (error) {
      this.fail(error);
    }
  }

  #check(): void {
    const outcome = this.#parts.checkSignature(this, Date.now());
    if (outcome !== null) this.signatureChecked(outcome);
  }

  /** The problem names the limit and the setting that decides it. */
  #tooLarge(): Problem {
    const { capBytes } = this.webhook;
    const setting =
      capBytes < this.#parts.capBytes
        ? 'max_payload_bytes of the webhook (at most WEBHOOK_MAX_PAYLOAD_BYTES)'
        : 'WEBHOOK_MAX_PAYLOAD_BYTES';
    const fix = `raise ${setting} or send a URL reference instead of inline content`;
    return problem('payload_too_large', `The payload exceeds the limit of ${capBytes} bytes: ${fix}.`);
  }

  signatureChecked(outcome: SignatureOutcome): void {
    try {
      this.exchange.clock.lap(Stage.verify);
      if (outcome.kind !== 'verified') return this.#refuseSignature(outcome);
      if (this.exchange.aborted || answersVerified(this.exchange, this.webhook, this.json)) return this.end();
      this.#store(this);
    } catch (error) {
      this.fail(error);
    }
  }

  #refuseSignature(outcome: Exclude<SignatureOutcome, { kind: 'verified' }>): void {
    if (outcome.kind === 'unavailable') return this.#refuse(problemLater('verification_unavailable', RETRY_SECONDS));
    if (outcome.kind === 'unreadable') return this.#refuse(problemLater('secret_unavailable', SECRET_RETRY_SECONDS));
    this.webhook.counter.touch().rejected++;
    this.exchange.problem(refusalOf(this.webhook, outcome));
    this.#parts.onRejected(this, outcome.kind);
    this.end();
  }

  #refuse(answer: Problem): void {
    this.exchange.problem(answer);
    this.end();
  }

  fail(error: unknown): void {
    this.exchange.fail(error);
    this.end();
  }

  end(): void {
    this.#awaitsBody = false;
    this.#reading.release();
  }
}
