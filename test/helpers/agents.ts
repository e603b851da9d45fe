/** Agents for tests: created like by the command, with a session, and a second process on the same database. */
import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createLog } from '../../server/base/telemetry/log.ts';
import { Agents } from '../../server/manage/api/agents/agent-changes.ts';
import { UndoStack } from '../../server/operate/primary/ending.ts';
import { type App, startApp } from '../../server/operate/process/app.ts';
import { systemActor } from '../../server/store/audit/record.ts';
import { Changes } from '../../server/store/connect/listen.ts';
import type { Database } from '../../server/store/connect/pool.ts';
import { uuidText, uuidv7, uuidv7Milliseconds } from '../../server/store/ids.ts';
import { readHorizon } from '../../server/store/retention/partitions.ts';
import { loadSecretsKeys } from '../../server/store/secrets/keys.ts';
import { listen, type Overrides, startTestApp, type TestApp, type TestWebhook } from './app.ts';
import { signedRequest } from './requests.ts';
import { made } from './webhooks.ts';

export interface Delivery {
  id: string;
  receipt: string;
  attempt: number;
  leased_until: string;
  event: {
    id: string;
    webhook_id: string;
    webhook_name: string;
    received_at: string;
    event_type: string | null;
    content_type: string | null;
    headers: Record<string, string>;
    body?: string;
    body_base64?: string;
  };
}

export interface ClaimOrder {
  max?: number;
  lease_seconds?: number;
  wait_seconds?: number;
  webhook_ids?: string[];
}

export interface Settled {
  done: string[];
  gone: string[];
  away?: string[];
}

export interface Answer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into by tests
  body: any;
}

/** A limit of authentications high enough for all tests. */
export function startAgentApp(overrides: Overrides = {}): Promise<TestApp> {
  return startTestApp({ RATE_LIMIT_AGENT_AUTH_MAX: 1_000_000, ...overrides });
}

/** An agent with a session, at one process. */
export class TestAgent {
  readonly id: string;
  readonly credential: string;
  readonly url: string;
  token: string;

  constructor(url: string, agent: { id: string; credential: string }, token: string) {
    this.url = url;
    this.id = agent.id;
    this.credential = agent.credential;
    this.token = token;
  }

  /** The same agent and session at another process. */
  at({ url }: { url: string }): TestAgent {
    return new TestAgent(url, this, this.token);
  }

  post(action: 'claim' | 'ack' | 'nack' | 'extend', body: unknown, signal?: AbortSignal): Promise<Answer> {
    return request(`${this.url}/api/v1/agent/deliveries/${action}`, this.token, body, signal);
  }

  /** Claims deliveries, leased for an hour by default. Throws when the response is not 200. */
  async claim(order: ClaimOrder = {}): Promise<Delivery[]> {
    const answer = await this.post('claim', { max: 1000, lease_seconds: 3600, ...order });
    if (answer.status !== 200) throw new Error(`claim was answered ${answer.status}: ${JSON.stringify(answer.body)}`);
    return answer.body.deliveries;
  }

  /** Claims one delivery; throws when none can be claimed. */
  async claimOne(order: ClaimOrder = {}): Promise<Delivery> {
    const [delivery] = await this.claim({ max: 1, ...order });
    if (delivery === undefined) throw new Error('there is nothing to claim');
    return delivery;
  }

  ack(receipts: readonly string[]): Promise<Settled> {
    return settle(this, 'ack', { receipts });
  }

  nack(
    receipts: readonly string[],
    rest: { delay_seconds?: number; reason?: string; release?: true } = {},
  ): Promise<Settled> {
    return settle(this, 'nack', { receipts, ...rest });
  }

  extend(receipts: readonly string[], leaseSeconds: number): Promise<Settled> {
    return settle(this, 'extend', { receipts, lease_seconds: leaseSeconds });
  }
}

async function settle(agent: TestAgent, action: 'ack' | 'nack' | 'extend', body: unknown): Promise<Settled> {
  const answer = await agent.post(action, body);
  if (answer.status !== 200) throw new Error(`${action} was answered ${answer.status}: ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** GET without a body, else POST; `token` is sent as a bearer token. */
export async function request(
  url: string,
  token: string | null,
  body?: unknown,
  signal?: AbortSignal,
): Promise<Answer> {
  const response = await fetch(url, {
    method: body === undefined ? 'GET' : 'POST',
    headers: token === null ? {} : { Authorization: `Bearer ${token}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

export function agentsOf({ database }: Pick<TestApp, 'database'>): Agents {
  return new Agents({ database, changes: new Changes(database) }, systemActor);
}

/** Creates an agent with these subscriptions and opens a session. */
export async function addAgent(app: TestApp, webhooks: readonly TestWebhook[] = []): Promise<TestAgent> {
  const webhookIds = webhooks.map(({ id }) => id);
  const agent = made(await agentsOf(app).add({ name: `test ${randomUUID()}`, webhook_ids: webhookIds }));
  return new TestAgent(app.url, agent, await signIn(app, agent.credential));
}

/** A new webhook, and an agent that is subscribed to it. */
export async function subscribed(app: TestApp): Promise<{ webhook: TestWebhook; agent: TestAgent }> {
  const webhook = await app.addWebhook();
  return { webhook, agent: await addAgent(app, [webhook]) };
}

/** Opens a session for a credential. */
export async function signIn({ url }: { url: string }, credential: string): Promise<string> {
  const { status, body } = await request(`${url}/api/v1/agent/session`, credential, {});
  if (status !== 200) throw new Error(`the sign-in was answered ${status}`);
  return body.access_token;
}

/** Sends a signed request; returns the id of its event. The next event gets a later millisecond: those of one have no order. */
export async function send(webhook: TestWebhook, body?: string | Uint8Array<ArrayBuffer>): Promise<string> {
  const given = body === undefined ? {} : { body };
  const response = await fetch(webhook.url, signedRequest({ secret: webhook.secret, ...given }));
  if (response.status !== 202) throw new Error(`the request was answered ${response.status}`);
  const { id } = (await response.json()) as { id: string };
  if (Date.now() <= uuidv7Milliseconds(id)) await delay(1);
  return id;
}

/** Stores many events in one statement, like a COPY: the fan-out of the database creates their deliveries. */
export async function storeEvents(
  database: Database,
  webhookId: string,
  count: number,
  receivedAtMs = Date.now(),
): Promise<string[]> {
  const ids = Array.from({ length: count }, () => uuidText(uuidv7(receivedAtMs, randomBytes(16))));
  await database.query({
    text: `insert into events (id, webhook_id, received_at, source_ip, headers, content_type, body, bytes)
           select id, $2::uuid, $3::timestamptz, '127.0.0.1', '', 'text/plain', 'x', 1 from unnest($1::uuid[]) id`,
    values: [`{${ids.join(',')}}`, webhookId, new Date(receivedAtMs).toISOString()],
  });
  return ids;
}

/** Moves times back by these seconds: leases expire, delays end. */
export async function letPass(database: Database, seconds: number): Promise<void> {
  await database.query({
    text: `update deliveries
           set available_at = available_at - make_interval(secs => $1), leased_at = leased_at - make_interval(secs => $1)
           where state in ('pending', 'leased')`,
    values: [seconds],
  });
}

interface DeliveryRow {
  state: 'pending' | 'leased' | 'done' | 'dead' | 'dismissed' | 'filtered';
  attempts: number;
  reason: string | null;
  /** Seconds until it is claimable; negative when it already is. */
  seconds: number;
  finished: boolean;
}

/** A delivery as stored. */
export async function rowOf(database: Database, id: string): Promise<DeliveryRow> {
  const [row] = await database.query<DeliveryRow>({
    text: `select state, attempts, reason, extract(epoch from available_at - now())::float8 as seconds,
             finished_at is not null as finished from deliveries where id = $1`,
    values: [id],
  });
  return row!;
}

export interface SecondApp {
  app: App;
  url: string;
  logLines: string[];
  stop(): Promise<void>;
}

const workers = fileURLToPath(new URL('../../dist/workers', import.meta.url));

/** Another process on the database of the first, with its own listener or (`listens: false`) with a disconnected one. */
export async function startSecondApp(first: TestApp, { listens = true } = {}): Promise<SecondApp> {
  const undo = new UndoStack();
  const logLines: string[] = [];
  const { settings, conninfo } = first;
  const log = createLog(
    { write: (line) => logLines.push(line), flush: () => {}, dropped: () => 0 },
    settings.LOG_LEVEL,
    {},
  );
  const horizon = (await readHorizon(first.database))!;
  const app = await startApp(
    { settings, conninfo, keys: loadSecretsKeys(settings), horizon, history: [] },
    log,
    workers,
  );
  undo.push(() => app.drain());
  if (listens) {
    const listener = await listen(conninfo, app);
    undo.push(() => listener.stop());
  }
  return { app, url: `http://127.0.0.1:${app.port}`, logLines, stop: () => undo.run() };
}
