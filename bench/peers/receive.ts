/**
 * A receiver without Weir: a Fastify cluster of 2 that verifies the HMAC, stores each request, and answers 202 after the commit.
 *
 * Arguments: a JSON document with `port`, `secret`, `name` of the queue, and `order`, its addresses.
 */
import cluster from 'node:cluster';
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import Fastify from 'fastify';
import { type QueueName, queues } from './queues/open.ts';
import type { Queue, QueueOrder } from './queues/queue.ts';

interface Order {
  port: number;
  secret: string;
  name: QueueName;
  order: QueueOrder;
}

/** The parts of Fastify that are used. */
type ParserDone = (error: null, body: Buffer) => void;
interface Received {
  params: { id: string };
  body: Buffer;
  headers: IncomingHttpHeaders;
}
interface Reply {
  code(status: number): { send(document: object): unknown };
}

const PROCESSES = 2;

if (cluster.isPrimary) supervise();
else await serve(JSON.parse(process.argv[2]!) as Order);

function supervise(): void {
  let listening = 0;
  process.stdin.resume().on('end', () => process.exit());
  cluster.on('listening', () => {
    if (++listening === PROCESSES) console.log('listening');
  });
  // A cluster with fewer processes than declared would make the measurement invalid.
  cluster.on('exit', (_worker, code) => process.exit(code || 1));
  for (let i = 0; i < PROCESSES; i++) cluster.fork();
}

async function serve({ port, secret, name, order }: Order): Promise<void> {
  const { add } = (await queues[name](order)) as Queue;
  const app = Fastify({ logger: false });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request: unknown, body: Buffer, done: ParserDone) =>
    done(null, body),
  );
  app.post('/in/:id', async ({ body, headers, params }: Received, reply: Reply) => {
    if (!isSigned(body, headers['x-hub-signature-256'], secret)) return reply.code(403).send({ error: 'signature' });
    const receivedAt = new Date().toISOString();
    const id = await add(body.toString('utf8'));
    return reply.code(202).send({ id, webhook_id: params.id, received_at: receivedAt, bytes: body.length });
  });
  await app.listen({ host: '127.0.0.1', port });
}

function isSigned(body: Buffer, signature: unknown, secret: string): boolean {
  if (typeof signature !== 'string' || !signature.startsWith('sha256=')) return false;
  const claimed = Buffer.from(signature.slice('sha256='.length), 'hex');
  const digest = createHmac('sha256', secret).update(body).digest();
  return claimed.length === digest.length && timingSafeEqual(claimed, digest);
}
