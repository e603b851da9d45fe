/** A sender with many signed requests in progress, which records every 202, and retries nothing that may have been stored. */
import { randomUUID } from 'node:crypto';
import { Agent, type IncomingMessage, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { Database } from '../../server/store/connect/pool.ts';
import { signatureOf } from './requests.ts';
import { PATIENCE_MS, until } from './wait.ts';

export interface SenderOptions {
  port: number;
  path: string;
  secret: string;
  /** Number of connections, each with one request in progress. */
  lanes?: number;
  bodyBytes?: number;
  /** Fewer than the processors could do, so that what recovers has some of them. */
  perSecondMax?: number;
  /** False: a new connection for each request. */
  keepAlive?: boolean;
  /** Sent with another value in each request. */
  keyHeader?: string;
  /** Requests that are sent again on a new connection because the reused one was closed without an answer; by default 0. */
  repeatsMax?: number;
}

/**
 * For processes that drain. They announce the end of a connection with its last answer, and close it when it was idle for half a second; a
 * request that leaves a stalled sender at that moment is reset unread, and HTTP clients repeat it (RFC 9112, sections 9.3.1 and 9.6). A process
 * that closes connections in use resets more than these few.
 */
export const DRAINING = { repeatsMax: 5 };

/** A response other than 202. */
export interface Refusal {
  status: number;
  retryAfter: string | undefined;
  code: string;
}

/** A request without a response. */
interface Loss {
  /** True if its connection had served a request before, so that the server had accepted it. */
  reused: boolean;
  code: string;
}

export interface Sender {
  /** Bodies by the id in their 202. */
  readonly accepted: Map<string, string>;
  readonly refusals: Refusal[];
  readonly losses: Loss[];
  /** Processes that responded, distinguished by their request ids. */
  readonly answeredBy: Set<string>;
  /** Resolves when this many more are accepted. */
  acceptMore(count: number): Promise<void>;
  /** Stops sending; resolves when all requests in progress are answered or lost. */
  stop(): Promise<void>;
}

/** Pause after a failed request, so that neither an unavailable server nor this machine is flooded. */
const PACE_MS = 50;

/** Idle connections are closed before the server does it, after 8 s. */
const IDLE_MS = 4_000;

export function startSender(options: SenderOptions): Sender {
  const { lanes = 32, bodyBytes = 600, keepAlive = true, perSecondMax = 500, repeatsMax = 0 } = options;
  const agent = new Agent({ keepAlive, maxSockets: lanes, timeout: IDLE_MS });
  const pauseMs = (1000 * lanes) / perSecondMax;
  const accepted = new Map<string, string>();
  const refusals: Refusal[] = [];
  const losses: Loss[] = [];
  const answeredBy = new Set<string>();
  let stopped = false;
  let number = 0;
  let repeats = 0;

  async function lane(): Promise<void> {
    while (!stopped) {
      const body = JSON.stringify({ number: number++, filling: 'æ'.repeat(bodyBytes / 2) });
      let outcome = await sendOnce(agent, options, body);
      if (isClosedIdle(outcome) && repeats++ < repeatsMax) outcome = await sendOnce(false, options, body);
      if ('status' in outcome) {
        answeredBy.add(outcome.requestId.split('-')[0]!);
        if (outcome.status === 202) accepted.set((JSON.parse(outcome.body) as { id: string }).id, body);
        else refusals.push(refusalOf(outcome));
      } else losses.push(outcome);
      const isAccepted = 'status' in outcome && outcome.status === 202;
      if (!isAccepted || pauseMs > 0) await delay(isAccepted ? pauseMs : PACE_MS);
    }
  }

  const running = Promise.all(Array.from({ length: lanes }, lane));
  return {
    accepted,
    refusals,
    losses,
    answeredBy,
    async acceptMore(count) {
      const wanted = accepted.size + count;
      await until(() => accepted.size >= wanted);
    },
    async stop() {
      stopped = true;
      await running;
      agent.destroy();
    },
  };
}

interface Reply {
  status: number;
  requestId: string;
  retryAfter: string | undefined;
  body: string;
}

function isClosedIdle(outcome: Reply | Loss): boolean {
  return 'reused' in outcome && outcome.reused && ['ECONNRESET', 'EPIPE'].includes(outcome.code);
}

/** @param agent false: on a new connection */
function sendOnce(
  agent: Agent | false,
  { port, path, secret, keyHeader }: SenderOptions,
  body: string,
): Promise<Reply | Loss> {
  const headers = {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
    'X-Hub-Signature-256': signatureOf(secret, body),
    ...(keyHeader === undefined ? {} : { [keyHeader]: randomUUID() }),
  };
  return new Promise((resolve) => {
    const sent = request({ host: '127.0.0.1', port, path, method: 'POST', agent, headers, timeout: PATIENCE_MS });
    const lost = (code: string) => resolve({ reused: sent.reusedSocket, code });
    sent.once('error', (error: NodeJS.ErrnoException) => lost(error.code ?? error.message));
    sent.once('timeout', () => sent.destroy(new Error('no answer')));
    sent.once('response', (response) => void readReply(response).then(resolve, () => lost('cut off')));
    sent.end(body);
  });
}

async function readReply(response: IncomingMessage): Promise<Reply> {
  let body = '';
  for await (const chunk of response.setEncoding('utf8')) body += chunk;
  return {
    status: response.statusCode!,
    requestId: String(response.headers['x-request-id']),
    retryAfter: response.headers['retry-after'],
    body,
  };
}

/** A proxy's own response has no code. */
function refusalOf({ status, retryAfter, body }: Reply): Refusal {
  const { code } = body.startsWith('{') ? (JSON.parse(body) as { code: string }) : { code: 'not from Weir' };
  return { status, retryAfter, code };
}

const IDS_A_QUERY = 2_000;

/** Ids that were answered 202 and are not stored, or not byte for byte. */
export async function missing(database: Database, accepted: ReadonlyMap<string, string>): Promise<string[]> {
  const ids = [...accepted.keys()];
  const wrong: string[] = [];
  for (let at = 0; at < ids.length; at += IDS_A_QUERY) {
    const asked = ids.slice(at, at + IDS_A_QUERY);
    const text = 'select id, body from events where id = any($1::uuid[])';
    const rows = await database.query<{ id: string; body: Buffer }>({ text, values: [asked] });
    const stored = new Map(rows.map(({ id, body }) => [id, body]));
    wrong.push(...asked.filter((id) => !stored.get(id)?.equals(Buffer.from(accepted.get(id)!))));
  }
  return wrong;
}
