/**
 * The baseline without Weir: a Fastify cluster of 2 that verifies the HMAC and stores each request with its own INSERT,
 * through node-postgres's pool, in a table with the columns and the key of `events`.
 *
 * Arguments: a JSON document with `port`, `secret`, `table`, `connections` (per process), `database` (node-postgres's
 * options).
 */
import cluster from 'node:cluster';
import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import Fastify from 'fastify';
import pg from 'pg';

interface Order {
  port: number;
  secret: string;
  table: string;
  connections: number;
  database: pg.PoolConfig;
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

async function serve({ port, secret, table, connections, database }: Order): Promise<void> {
  const pool = new pg.Pool({ ...database, max: connections });
  const insert = {
    name: 'insert-event',
    text: `insert into ${table} (id, webhook_id, received_at, source_ip, headers, content_type, body, bytes)
           values ($1, $2, $3, $4, $5, $6, $7, $8)`,
  };
  const app = Fastify({ logger: false });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.post<{ Params: { id: string }; Body: Buffer }>('/in/:id', async (request, reply) => {
    const { body, headers } = request;
    if (!isSigned(body, headers['x-hub-signature-256'], secret)) return reply.code(403).send({ error: 'signature' });
    const id = randomUUID();
    const receivedAt = new Date().toISOString();
    const { 'x-hub-signature-256': _signature, ...kept } = headers;
    const lines = Object.entries(kept).map(([name, value]) => `${name}: ${value}`);
    const headerBytes = Buffer.from(lines.join('\n'));
    const type = headers['content-type'] ?? null;
    const values = [id, request.params.id, receivedAt, request.ip, headerBytes, type, body, body.length];
    await pool.query({ ...insert, values });
    return reply.code(202).send({ id, webhook_id: request.params.id, received_at: receivedAt, bytes: body.length });
  });
  await app.listen({ host: '127.0.0.1', port });
}

function isSigned(body: Buffer, signature: unknown, secret: string): boolean {
  if (typeof signature !== 'string' || !signature.startsWith('sha256=')) return false;
  const claimed = Buffer.from(signature.slice('sha256='.length), 'hex');
  const digest = createHmac('sha256', secret).update(body).digest();
  return claimed.length === digest.length && timingSafeEqual(claimed, digest);
}
