/** The alerts of a primary, and a receiver of them, which verifies each request with the library of Standard Webhooks. */
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { onTestFinished } from 'vitest';
import type { Settings } from '../../server/base/settings/read.ts';
import type { DiskState } from '../../server/model/machines.ts';
import { createAlerts } from '../../server/operate/primary/alerts.ts';
import { emptySpool, type SpoolContents } from '../../server/receive/spool/contents.ts';
import type { Database } from '../../server/store/connect/pool.ts';

export const ALERT_SECRET = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;

interface ReceivedAlert {
  /** webhook-id */
  id: string;
  body: { type: string; subject: { id: string }; [member: string]: unknown };
  answer: (status: number) => void;
}

interface AlertReceiver {
  /** For ALERT_URL; its path is like a secret. */
  url: string;
  got: ReceivedAlert[];
  /** What it answers; null: the test answers. */
  status: number | null;
  /** Headers of its answers. */
  headers: Record<string, string>;
}

/** Runs until the end of the test. */
export async function startAlertReceiver(): Promise<AlertReceiver> {
  const receiver: AlertReceiver = { url: '', got: [], status: 200, headers: {} };
  const listener: RequestListener = async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const headers = request.headers as Record<string, string>;
    const body = new Webhook(ALERT_SECRET).verify(Buffer.concat(chunks).toString(), headers) as ReceivedAlert['body'];
    const answer = (status: number) => void response.writeHead(status, receiver.headers).end();
    receiver.got.push({ id: headers['webhook-id']!, body, answer });
    if (receiver.status !== null) answer(receiver.status);
  };
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/SECRETPATH`;
  return receiver;
}

interface Machine {
  /** Null: it has no spool. */
  folder?: string | null;
  contents?: () => Promise<SpoolContents>;
  disks?: DiskState[];
  startedMs?: number;
}

/** The alerts of a machine that has just started, so that nothing is remembered outside the database and DATA_DIR, and what it logs. */
export function alertsOf(
  database: Database,
  settings: Settings,
  { folder = null, contents = async () => emptySpool, disks = [], startedMs = 0 }: Machine = {},
) {
  const lines: [string, unknown][] = [];
  const log = Object.assign((event: string, fields: unknown) => void lines.push([event, fields]), {
    enabled: () => true,
    dropped: () => 0,
  });
  const [cells, spool] = [{ all: () => [] }, { folder, contents }];
  const parts = { database, log, settings: () => settings, cells, spool, disks: { states: disks }, startedMs };
  return { alerts: createAlerts(parts), lines };
}
