/**
 * Scenario `crowd`: 5,000 agents whose claims wait, and then 5,000 live streams, at one process: memory, idle processor time, and how
 * long an event takes to a waiting claim.
 *
 *     no client | 5,000 waiting claims | the same with a few events a second | 5,000 streams of all webhooks | 5,000 streams of one webhook each
 */
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { CommandError } from '../server/base/command/io.ts';
import { signSession } from '../server/manage/auth/agent-session.ts';
import { residentBytes } from '../server/operate/load/child.ts';
import { benchBody, signedRequest } from '../server/operate/load/environment.ts';
import { uuidv7Milliseconds } from '../server/store/ids.ts';
import { deriveKey } from '../server/store/secrets/seal.ts';
import { openBenchDatabase } from './lib/database.ts';
import { addFirst, addSecrets, fillInstallation } from './lib/installation.ts';
import type { BenchContext, Outcome, Scenario } from './lib/outcome.ts';
import { sendPaced } from './lib/pace.ts';
import { measureRest, type Rest } from './lib/rest.ts';
import { formatNumber, percentile } from './lib/stats.ts';
import { startWeir } from './lib/weir.ts';

const CROWD = 5_000;
const SIZE = {
  webhooks: 25_000,
  agents: 5_000,
  subscriptions: 25_000,
  ofFirstAgent: null,
  events: 25_000,
  pending: 0,
  days: 1,
};
const SECRET = 'a secret of every webhook';
const BODY_BYTES = 1024;
const WAIT_SECONDS = 30;
const PER_SECOND = 50;
const SETTLE_MS = 15_000;
/** As many as the process accepts at once. */
const OPENED_AT_ONCE = 50;
const SETTINGS = {
  STREAMS_MAX: '10000',
  USER_STREAMS_MAX: '10000',
  CLIENT_REQUESTS_MAX: '100000',
  RATE_LIMIT_INGEST_MAX: '1000000000',
};

export const crowd: Scenario = {
  name: 'crowd',
  summary: '5,000 waiting claims and 5,000 live streams of one process: memory, idle processor time, latency',
  defaults: { rounds: 1, seconds: 30 },
  run,
};

async function run(context: BenchContext): Promise<Outcome> {
  const bench = await openBenchDatabase(context);
  const first = await addFirst(bench.database, { lookupId: '0'.repeat(12), secretHash: Buffer.alloc(32) });
  await fillInstallation(context, bench.database, SIZE, first);
  await addSecrets(bench.database, bench.secretsKey, SECRET);
  const weir = await startWeir({ ...bench, processes: 1, secret: SECRET, settings: SETTINGS });
  context.undo(() => weir.stop());
  const token = await weir.addToken();
  const pid = weir.processes[0]!;
  const measured: (Rest & { mb: number })[] = [];
  const measure = async (name: string) => {
    const [rest] = await measureRest(context, [{ name, bench, weir }], context.seconds * 1_000);
    measured.push({ ...rest!, mb: residentBytes(pid) / 1e6 });
    context.say(`${name}: ${formatNumber(measured.at(-1)!.mb)} MB, ${JSON.stringify(rest)}`);
  };
  await delay(SETTLE_MS, undefined, { signal: context.signal });
  await measure('no client');

  const waiting = await openClaims(context, bench, weir.origin);
  await delay(SETTLE_MS, undefined, { signal: context.signal });
  await measure(`${formatNumber(CROWD)} waiting claims`);
  const rows = await bench.database.query<{ id: string }>({
    text: `select id from webhooks where name like 'volume %' order by random() limit 1000`,
  });
  waiting.latenciesMs.length = 0;
  const request = signedRequest(SECRET, benchBody(BODY_BYTES));
  const [, sent] = await Promise.all([
    measure(`the same with ${PER_SECOND} events a second`),
    sendPaced(
      { url: `${weir.origin}/in/${rows[0]!.id}`, ...request, perSecond: PER_SECOND, seconds: context.seconds },
      context.signal,
    ),
  ]);
  const latencies = [...waiting.latenciesMs];
  await waiting.close();

  for (const [name, of] of [
    ['of all webhooks', () => ''],
    ['of one webhook each', (i: number) => `?webhook_id=${rows[i % rows.length]!.id}`],
  ] as const) {
    const streams = await openStreams(context, weir.origin, token, of);
    await delay(SETTLE_MS, undefined, { signal: context.signal });
    await measure(`${formatNumber(CROWD)} streams ${name}`);
    streams.close();
    await delay(SETTLE_MS, undefined, { signal: context.signal });
  }
  const perSecond = (ms: number) => formatNumber(ms / context.seconds);
  return {
    tables: [
      {
        header: ['CPU in ms a second', 'memory, MB', 'process', 'primary', 'Postgres'],
        rows: measured.map(({ name, mb, processMs, primaryMs, postgresMs }) => [
          name,
          formatNumber(mb),
          ...[processMs, primaryMs, postgresMs].map(perSecond),
        ]),
      },
    ],
    measures: [{ name: 'from receipt to a waiting claim', unit: 'ms', values: latencies }],
    ratios: [],
    goals: [],
    notes: [
      `${formatNumber(latencies.length)} of ${formatNumber(sent.length)} events reached their agent: p50 ${formatNumber(percentile(latencies, 0.5))} ms, p95 ${formatNumber(percentile(latencies, 0.95))} ms after their receipt.`,
      `One process with ${Object.entries(SETTINGS)
        .map((one) => one.join('='))
        .join(', ')}; ${formatNumber(SIZE.webhooks)} webhooks, 5 of each agent. The clients share the cores.`,
    ],
    faults: [],
  };
}

/** Claims of CROWD agents that wait, and claim again after each answer. */
async function openClaims(
  context: BenchContext,
  { database, secretsKey }: Awaited<ReturnType<typeof openBenchDatabase>>,
  origin: string,
) {
  const key = deriveKey(secretsKey, 'agent-sessions');
  const agents = await database.query<{ id: string; generation: number }>({
    text: 'select id, generation from agents limit $1',
    values: [CROWD],
  });
  const http = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
  const latenciesMs: number[] = [];
  let isClosed = false;
  const close = async () => {
    isClosed = true;
    http.destroy();
  };
  context.undo(close);
  const claim = async (token: string, opened: () => void) => {
    const body = JSON.stringify({ max: 10, wait_seconds: WAIT_SECONDS, lease_seconds: 60 });
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'content-length': body.length,
    };
    while (!isClosed) {
      const call = request(`${origin}/api/v1/agent/deliveries/claim`, { method: 'POST', agent: http, headers });
      call.end(body, opened);
      const answered = await once(call, 'response').catch(() => null);
      if (answered === null) continue;
      const [response] = answered as [IncomingMessage];
      let text = '';
      for await (const part of response.setEncoding('utf8')) text += part;
      if (response.statusCode !== 200) throw new CommandError(`a claim was answered ${response.statusCode}: ${text}`);
      for (const { event } of JSON.parse(text).deliveries) latenciesMs.push(Date.now() - uuidv7Milliseconds(event.id));
    }
  };
  for (let from = 0; from < agents.length; from += OPENED_AT_ONCE)
    await Promise.all(
      agents.slice(from, from + OPENED_AT_ONCE).map(({ id, generation }) => {
        const token = signSession({ agentId: id, generation, expiresAtMs: Date.now() + 900_000 }, key);
        return new Promise<void>((resolve, reject) => void claim(token, resolve).catch(reject));
      }),
    );
  return { latenciesMs, close };
}

async function openStreams(context: BenchContext, origin: string, token: string, queryOf: (place: number) => string) {
  const http = new Agent({ maxSockets: Number.POSITIVE_INFINITY });
  const close = () => http.destroy();
  context.undo(close);
  const open = async (place: number) => {
    const call = request(`${origin}/api/v1/stream${queryOf(place)}`, {
      agent: http,
      headers: { authorization: `Bearer ${token}` },
    });
    call.on('error', () => {});
    const [response] = (await once(call.end(), 'response')) as [IncomingMessage];
    if (response.statusCode !== 200) throw new CommandError(`a stream was answered ${response.statusCode}`);
    response.on('error', () => {}).resume();
  };
  for (let from = 0; from < CROWD; from += OPENED_AT_ONCE)
    await Promise.all(Array.from({ length: OPENED_AT_ONCE }, (_, i) => open(from + i)));
  return { close };
}
