/** `weir/client`: what an agent imports. Its tutorial is /docs/agents of the server. */
import { type CredentialSource, credentialReader } from './credential.ts';
import { type Delivery, NotBegun } from './delivery.ts';
import { type ApiClient, openApiClient, repeater, WeirError } from './http.ts';
import {
  type AgentNotice,
  type CompleteOptions,
  completeOptions,
  type Notify,
  type RunCounts,
  type RunOptions,
} from './options.ts';
import { AgentSession } from './session.ts';
import type { WorkHandler } from './work.ts';
import { Run } from './work-loop.ts';

export {
  type ClaimedDelivery,
  type DeliveredEvent,
  type Delivery,
  type EventHeaders,
  Retry,
  type Settlement,
} from './delivery.ts';
export { WeirError, type WeirErrorCode } from './http.ts';
export type { AgentNotice, Notify, RunCounts, RunOptions } from './options.ts';

/** The agent, as `GET /api/v1/agent/me` returns it. */
export interface AgentStatus {
  readonly id: string;
  readonly name: string;
  /** Deliveries that wait for a claim, counted up to 10,000. */
  readonly pending: number;
  /** Null when none is pending. */
  readonly oldest_pending_seconds: number | null;
  /** Webhooks that it is subscribed to, at most 1,000. `verified`: the webhook refuses requests whose signature does not verify. */
  readonly webhooks: readonly { readonly id: string; readonly name: string; readonly verified: boolean }[];
  /** True: an operator paused the agent, so that its claims find nothing. */
  readonly paused: boolean;
}

export type AgentOptions = CredentialSource & {
  /** Base URL of the API, for example `http://127.0.0.1:8080`; may have a path. */
  url: string | URL;
  /** Called for outages, failed deliveries and lost leases; by default each is a warning of the process. Must not throw. */
  notify?: Notify;
  /** Attempts of a call that end in a lost connection or a 5xx before it fails. By default calls are repeated without end. */
  attemptsMax?: number;
};

interface HandlerContext {
  /** Aborts when the work should stop: the lease was lost, the time to drain ended, or the agent was closed. */
  signal: AbortSignal;
}

/** Works on one delivery. Its end acknowledges the delivery; its error returns it (see Retry). */
export type Handler = (delivery: Delivery, context: HandlerContext) => unknown;

/**
 * An agent: it claims the deliveries of its webhooks and settles each. Sessions are opened and renewed, leases are extended while
 * the work continues, and calls are repeated after lost connections, 408, 429 and 5xx, as Retry-After requests. Every delivery is delivered
 * at least once: an agent that is killed loses none, but may see one again.
 */
export class Agent {
  readonly #client: ApiClient;
  readonly #session: AgentSession;
  readonly #notify: Notify;
  readonly #closed = new AbortController();

  /** Throws TypeError when the URL is not valid, and WeirError when `credential` is not an agent credential. Opens no connection. */
  constructor(options: AgentOptions) {
    const { url, notify = warn, attemptsMax = Number.POSITIVE_INFINITY } = options;
    const base = new URL(url);
    if (base.protocol !== 'http:' && base.protocol !== 'https:')
      throw new TypeError(`${base} is not an http or https URL.`);
    const readCredential = credentialReader(options);
    this.#notify = notify;
    this.#client = openApiClient(base);
    // With `attemptsMax`, a call fails soon instead of waiting for another credential. A credential given as a text cannot change.
    const waits = attemptsMax === Number.POSITIVE_INFINITY && typeof options.credential !== 'string';
    this.#session = new AgentSession({
      client: this.#client,
      readCredential,
      repeat: repeater({ base: this.#client.base, attemptsMax, notify }),
      notify: waits ? notify : null,
    });
  }

  /**
   * Calls `handler` for each delivery, up to `concurrency` at a time. More are claimed only while handlers are fast enough to begin
   * them within 100 ms, and a delivery that has not begun within a second is released. A delivery is acknowledged when the handler returns.
   * When it throws, the error's message is the reason of the failure, and the delivery is attempted again later. A handler may also settle
   * the delivery itself. Resolves when `signal` aborted and the drain is over, or when `max` or `once` is reached. Rejects with WeirError
   * when a repeated call cannot help, for example after the credential was revoked; running handlers are then asked to stop.
   */
  run(handler: Handler, options: RunOptions = {}): Promise<RunCounts> {
    // Otherwise each delivery would fail with this error.
    if (typeof handler !== 'function') throw new TypeError('handler is not a function.');
    return this.#run(completeOptions(options), (delivery) => handler(delivery, delivery));
  }

  /**
   * Yields deliveries, of which at most `concurrency` are unsettled at a time. Settle each with `ack` or `nack`: the lease of
   * an unsettled delivery is extended as long as the loop runs. After `signal` the loop ends: deliveries not yet yielded are
   * released at once, the others may be settled for `drainSeconds`. Leaving the loop early, also by an error, returns what is unsettled.
   * Throws WeirError as `run` does.
   */
  deliveries(options: RunOptions = {}): AsyncGenerator<Delivery, void, undefined> {
    return this.#each(completeOptions(options));
  }

  /** The agent's name and its pending deliveries. Rejects with WeirError. @param signal ends the call, which then rejects with `closed` */
  async me({ signal }: { signal?: AbortSignal } = {}): Promise<AgentStatus> {
    const either = signal === undefined ? this.#closed.signal : AbortSignal.any([signal, this.#closed.signal]);
    const status = await this.#session.call({ path: 'api/v1/agent/me', understand: statusOf }, either);
    if (status === null)
      throw new WeirError('closed', 'The call was stopped before it was answered.', 'Call it again.');
    return status;
  }

  /**
   * Ends everything at once: calls are cancelled, handlers are asked to stop, and unsettled deliveries come again when their leases expire.
   * Not needed after a drain, since idle connections keep no process alive.
   */
  close(): void {
    this.#closed.abort();
    this.#client.close();
  }

  async *#each(options: CompleteOptions): AsyncGenerator<Delivery, void, undefined> {
    const stop = new AbortController();
    /** Claimed, and not yet yielded. */
    const ready: { delivery: Delivery; release: () => void }[] = [];
    const yielded = new Set<Delivery>();
    let ended = false;
    let changed = () => {};
    const onStop = () => {
      stop.abort();
      for (const { release } of ready.splice(0)) release();
      changed();
    };
    const handler: WorkHandler = (delivery, onSettled) =>
      new Promise<void>((resolve, reject) => {
        onSettled(resolve);
        delivery.signal.addEventListener('abort', () => reject(delivery.signal.reason));
        ready.push({ delivery, release: () => reject(new NotBegun()) });
        changed();
      }).finally(() => yielded.delete(delivery));
    const run = this.#run({ ...options, signal: stop.signal }, handler).finally(() => {
      ended = true;
      changed();
    });
    // A rejection before the loop asks for more is reported by the await below.
    run.catch(() => {});
    options.signal?.addEventListener('abort', onStop);
    if (options.signal?.aborted) onStop();
    try {
      while (!ended) {
        const { delivery } = ready.shift() ?? {};
        if (delivery === undefined)
          await new Promise<void>((resolve) => {
            changed = resolve;
          });
        else if (!delivery.signal.aborted) {
          yielded.add(delivery);
          yield delivery;
        }
      }
    } finally {
      options.signal?.removeEventListener('abort', onStop);
      onStop();
      for (const delivery of yielded)
        delivery.nack('the loop over the deliveries ended before this one was settled').catch(() => {});
      await run;
    }
  }

  #run(options: CompleteOptions, handler: WorkHandler): Promise<RunCounts> {
    return new Run(options, this.#session, handler, this.#notify).run(this.#closed.signal);
  }
}

function statusOf(document: Partial<AgentStatus>): AgentStatus | undefined {
  return typeof document.id === 'string' ? (document as AgentStatus) : undefined;
}

function warn({ message }: AgentNotice): void {
  process.emitWarning(message, 'WeirWarning');
}
