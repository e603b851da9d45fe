/**
 * Tool calls in progress, so that a client can cancel them. With Streamable HTTP a cancellation is a request of its own
 * (notifications/cancelled), which any process of any machine may receive: it is passed to all of them on the channel of changes.
 */
import { createHash } from 'node:crypto';
import type { Exchange } from '../../base/http/exchange.ts';
import { CHANGES_CHANNEL } from '../../store/connect/listen.ts';
import type { Database } from '../../store/connect/pool.ts';
import type { Reader } from '../auth/person.ts';

interface Message {
  method?: unknown;
  id?: unknown;
  params?: { requestId?: unknown } | null;
}

export class OpenCalls {
  readonly #database: Database;
  readonly #exchanges = new Map<string, Set<Exchange>>();

  constructor(database: Database) {
    this.#database = database;
  }

  /** Serves a message. A call is open for cancellations until `work` ends; a cancellation is carried out and passed on first. */
  async during(requester: Reader, message: unknown, exchange: Exchange, work: () => Promise<void>): Promise<void> {
    const { method, id, params }: Message = Object(message);
    if (method === 'notifications/cancelled') this.#cancelEverywhere(keyOf(requester, params?.requestId));
    if (method !== 'tools/call') return work();
    const key = keyOf(requester, id);
    const open = this.#exchanges.get(key) ?? new Set();
    this.#exchanges.set(key, open.add(exchange));
    try {
      await work();
    } finally {
      open.delete(exchange);
      if (open.size === 0) this.#exchanges.delete(key);
    }
  }

  /** Ends the calls of this key that this process serves. */
  cancel(key: string): void {
    for (const exchange of this.#exchanges.get(key) ?? []) exchange.cancel();
  }

  #cancelEverywhere(key: string): void {
    this.cancel(key);
    // A lost NOTIFY lets the call wait until its own timeout, so its commit need not wait for the disk or a standby.
    const text = `select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`;
    this.#database.query({ text, values: [CHANGES_CHANNEL, `call:${key}`] }).catch(() => {});
  }
}

/**
 * Names a call by who made it and its JSON-RPC id. Two clients with one credential may use one id for two calls: both end, and the client
 * that did not cancel gets an early answer.
 */
function keyOf(requester: Reader, id: unknown): string {
  const by = requester.kind === 'agent' ? requester.agent.id : requester.person.id;
  return createHash('sha256')
    .update(`${by} ${JSON.stringify(id)}`)
    .digest('base64url');
}
