/** Simulates the agent API of Weir over node:http, with its rules for leases and receipts, and with faults on demand. */
import { randomBytes, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createCredential } from '../../../server/model/credential.ts';

export interface Row {
  id: string;
  webhookId: string;
  body: Buffer;
  state: 'pending' | 'leased' | 'done';
  attempt: number;
  availableAtMs: number;
  reason: string | null;
}

export interface Arrived {
  /** The last part of the path: session, claim, ack, nack or extend. */
  call: string;
  atMs: number;
  body: {
    max?: number;
    receipts?: string[];
    ack?: string[];
    reason?: string;
    delay_seconds?: number;
    release?: boolean;
    webhook_ids?: string[];
  };
  /** The client disconnected before the response. */
  gone: boolean;
}

/** `lost`: processed, but the response is not sent; `reset`: not processed. */
type Fault = 'reset' | 'lost' | { status: number; headers?: Record<string, string> };

export class PlayedWeir {
  readonly rows: Row[] = [];
  readonly arrived: Arrived[] = [];
  credential = createCredential('wa').text;
  sessionSeconds = 900;
  /** Webhooks of the agent, as GET /api/v1/agent/me lists them. */
  subscribed: { id: string }[] = [];
  /** Fault of a request, by its call and its number among the requests of that call, from 0. */
  fault: (call: string, number: number) => Fault | undefined = () => undefined;
  readonly #sessions = new Map<string, number>();
  readonly #server = createServer((request, response) => void this.#answer(request, response));
  readonly #waiting = new Set<() => void>();

  async start(port = 0): Promise<string> {
    await new Promise<void>((listening) => this.#server.listen(port, '127.0.0.1', listening));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  /** Stores an event for the agent. */
  add(body: string | Buffer = '{}', webhookId: string = randomUUID()): Row {
    const row: Row = {
      id: randomUUID(),
      webhookId,
      body: Buffer.from(body),
      state: 'pending',
      attempt: 0,
      availableAtMs: 0,
      reason: null,
    };
    this.rows.push(row);
    this.wake();
    return row;
  }

  wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  /** Another process of the agent takes the lease. */
  steal(row: Row): void {
    row.attempt += 1;
  }

  endSessions(): void {
    this.#sessions.clear();
  }

  calls(call: string): Arrived[] {
    return this.arrived.filter((one) => one.call === call);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const call = request.url!.split('/').at(-1)!;
    const number = this.calls(call).length;
    const body = JSON.parse(Buffer.concat(chunks).toString() || '{}');
    const arrived: Arrived = { call, atMs: performance.now(), body, gone: false };
    this.arrived.push(arrived);
    response.once('close', () => {
      arrived.gone = !response.writableFinished;
      this.wake();
    });
    const fault = this.fault(call, number);
    if (fault === 'reset') return void request.socket.destroy();
    if (typeof fault === 'object')
      return void response.writeHead(fault.status, fault.headers ?? {}).end('{"detail":"as the test wants it"}');
    const answer = await this.#document(request, call, arrived);
    if (fault === 'lost') request.socket.destroy();
    else
      response
        .writeHead(typeof answer === 'number' ? answer : 200, { 'Content-Type': 'application/json' })
        .end(JSON.stringify(typeof answer === 'number' ? { detail: 'no' } : answer));
  }

  async #document(request: IncomingMessage, call: string, arrived: Arrived): Promise<object | number> {
    const paths = /^(GET \/api\/v1\/agent\/me|POST \/api\/v1\/agent\/(session|deliveries\/(claim|ack|nack|extend)))$/;
    if (!paths.test(`${request.method} ${request.url}`)) return 404;
    const token = /^Bearer (\S+)$/.exec(request.headers.authorization ?? '')?.[1] ?? '';
    if (call === 'session') {
      if (token !== this.credential) return 401;
      const session = `ws_${randomBytes(12).toString('hex')}`;
      this.#sessions.set(session, performance.now() + this.sessionSeconds * 1000);
      return {
        access_token: session,
        token_type: 'Bearer',
        expires_in: this.sessionSeconds,
        agent: { id: randomUUID(), name: 'test' },
      };
    }
    if (!((this.#sessions.get(token) ?? 0) > performance.now())) return 401;
    if (call === 'me') return { id: 'the-agent', name: 'test', webhooks: this.subscribed };
    return call === 'claim' ? this.#claim(arrived) : this.#settle(call, arrived.body as Settlement);
  }

  async #claim(arrived: Arrived): Promise<object> {
    const { max, lease_seconds, wait_seconds, webhook_ids } = arrived.body as Required<Arrived['body']> & Claim;
    const { ack } = arrived.body;
    const settled = ack === undefined ? {} : { settled: this.#settle('ack', { receipts: ack, lease_seconds }) };
    const untilMs = performance.now() + wait_seconds * 1000;
    for (;;) {
      const nowMs = performance.now();
      const free = this.rows
        .filter(({ state, availableAtMs }) => state !== 'done' && availableAtMs <= nowMs)
        .filter(({ webhookId }) => webhook_ids === undefined || webhook_ids.includes(webhookId))
        .slice(0, max);
      if (free.length > 0 && !arrived.gone)
        return { deliveries: free.map((row) => lease(row, nowMs + lease_seconds * 1000)), ...settled };
      if (arrived.gone || nowMs >= untilMs) return { deliveries: [], ...settled };
      await this.#wait(Math.min(50, untilMs - nowMs));
    }
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      this.#waiting.add(wake);
    });
  }

  #settle(call: string, { receipts, lease_seconds, delay_seconds, reason, release }: Settlement): object | number {
    if (release !== undefined && (delay_seconds ?? reason) !== undefined) return 422;
    if (delay_seconds !== undefined && !(delay_seconds >= 0 && delay_seconds <= 86_400)) return 422;
    if (!Array.isArray(receipts) || receipts.length === 0 || receipts.length > 1000) return 422;
    const done = receipts.filter((receipt) => {
      const row = this.rows.find(({ id, attempt }) => `${id}.${attempt}` === receipt);
      if (row === undefined) return false;
      const nowMs = performance.now();
      if (call === 'ack') {
        if (row.state === 'pending') return false;
        row.state = 'done';
        return true;
      }
      if (row.state !== 'leased') return call === 'nack' && row.state === 'pending';
      if (call === 'extend') row.availableAtMs = nowMs + lease_seconds * 1000;
      else if (release) Object.assign(row, { state: 'pending', availableAtMs: nowMs });
      else Object.assign(row, { state: 'pending', reason, availableAtMs: nowMs + (delay_seconds ?? 3600) * 1000 });
      return true;
    });
    return { done, gone: receipts.filter((receipt) => !done.includes(receipt)) };
  }
}

interface Claim {
  lease_seconds: number;
  wait_seconds: number;
}

interface Settlement {
  receipts?: string[];
  lease_seconds: number;
  delay_seconds?: number;
  reason?: string;
  release?: boolean;
}

function lease(row: Row, untilMs: number): object {
  Object.assign(row, { state: 'leased', attempt: row.attempt + 1, availableAtMs: untilMs });
  const text = row.body.toString('utf8');
  const isText = Buffer.from(text).equals(row.body) && !row.body.includes(0);
  return {
    id: row.id,
    receipt: `${row.id}.${row.attempt}`,
    attempt: row.attempt,
    leased_until: '2026-01-01T00:00:00.000Z',
    event: {
      id: eventIdOf(row),
      webhook_id: row.webhookId,
      webhook_name: "a hook's name",
      received_at: '2026-01-01T00:00:00.000Z',
      event_type: 'order.created',
      content_type: 'application/json',
      headers: { 'user-agent': 'a "test"', 'x-länge': '1' },
      ...(isText ? { body: text } : { body_base64: row.body.toString('base64') }),
    },
  };
}

export function eventIdOf({ id }: Row): string {
  return `e${id.slice(1)}`;
}
