/** Weir's consumers: the client library, claims over plain HTTP, and an AI agent's tools over MCP. Jobs are requests to a webhook. */
import { Agent as HttpAgent } from 'node:http';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Agent } from '../../../server/deliver/client/index.ts';
import { type BenchDelivery, openBenchAgent, postTo } from '../../lib/agent.ts';
import type { Queue, WeirOrder } from './queue.ts';

const WAIT_SECONDS = 1;
/** The most that a tool of Weir's MCP leases at once. */
const MCP_MAX = 10;

type WeirWay = 'library' | 'http' | 'mcp';

/** Opens Weir as a queue, which the bench fills by SQL. */
export async function openWeirQueue(order: WeirOrder, way: WeirWay): Promise<Omit<Queue, 'fill'>> {
  const agent = new HttpAgent({ keepAlive: true });
  const consumers = { library: byLibrary, http: byHttp, mcp: byMcp };
  return {
    add: async (body) => (await postTo<{ id: string }>(agent, order.url, order.headers, body)).id,
    consume: (concurrency, handle) => consumers[way](order, concurrency, handle),
  };
}

type Handle = (id: string) => void;

async function byLibrary({ origin, credential }: WeirOrder, concurrency: number, handle: Handle): Promise<void> {
  const agent = new Agent({ url: origin, credential });
  void agent.run(({ event }) => handle(event.id), { concurrency });
}

/** A claim carries the receipts of the one before. */
async function byHttp({ origin, credential }: WeirOrder, max: number, handle: Handle): Promise<void> {
  const agent = await openBenchAgent(origin, credential);
  const work = async () => {
    for (let ack: BenchDelivery[] = []; ; ) {
      const deliveries = await agent.claim({ max, waitSeconds: WAIT_SECONDS, ack });
      for (const { event } of deliveries) handle(event.id);
      ack = deliveries;
    }
  };
  void work();
}

interface Waited {
  deliveries: { receipt: string; event_id: string }[];
}

async function byMcp({ origin, credential }: WeirOrder, concurrency: number, handle: Handle): Promise<void> {
  const max = Math.min(concurrency, MCP_MAX);
  const work = async () => {
    const client = new Client({ name: 'bench', version: '1' });
    const session = await (await openBenchAgent(origin, credential)).token();
    const requestInit = { headers: { Authorization: `Bearer ${session}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', origin), { requestInit }));
    for (;;) {
      const waiting = { name: 'wait_for_events', arguments: { max, wait_seconds: WAIT_SECONDS } };
      const { deliveries } = (await client.callTool(waiting)).structuredContent as Waited;
      for (const { event_id } of deliveries) handle(event_id);
      const receipts = deliveries.map(({ receipt }) => receipt);
      if (receipts.length > 0) await client.callTool({ name: 'acknowledge', arguments: { receipts } });
    }
  };
  for (let loop = 0; loop < concurrency / max; loop++) void work();
}
