/** Constant arrival rate: requests start when they are due, independent of earlier answers. */
import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { CommandError } from '../../server/base/command/io.ts';

/** One request; times in milliseconds of `performance.now()`. */
export interface Sent {
  id: string;
  /** When the request was due. A sender that falls behind raises the measured latency and never lowers it. */
  dueMs: number;
  answeredMs: number;
}

interface PacedOrder {
  url: string;
  headers: Record<string, string>;
  body: string;
  perSecond: number;
  seconds: number;
}

/** Sends for the given seconds; resolves when every request is answered. Rejects with CommandError when a response is not 202. */
export async function sendPaced(order: PacedOrder, signal: AbortSignal): Promise<Sent[]> {
  const agent = new Agent({ keepAlive: true });
  const total = Math.round(order.perSecond * order.seconds);
  const answers: Promise<Sent>[] = [];
  const startMs = performance.now();
  try {
    while (answers.length < total) {
      signal.throwIfAborted();
      const due = Math.min(total, Math.floor(((performance.now() - startMs) / 1000) * order.perSecond) + 1);
      while (answers.length < due) {
        const answer = sendOne(agent, order, startMs + (answers.length / order.perSecond) * 1000);
        // The promises are awaited at the end. Until then this handler prevents an unhandled rejection.
        answer.catch(() => {});
        answers.push(answer);
      }
      await delay(1);
    }
    return await Promise.all(answers);
  } finally {
    agent.destroy();
    await Promise.allSettled(answers);
  }
}

function sendOne(agent: Agent, { url, headers, body }: PacedOrder, dueMs: number): Promise<Sent> {
  return new Promise((resolve, reject) => {
    const call = request(url, { method: 'POST', agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      response.once('error', reject);
      response.once('end', () => {
        const answeredMs = performance.now();
        if (response.statusCode === 202) resolve({ id: (JSON.parse(text) as { id: string }).id, dueMs, answeredMs });
        else reject(new CommandError(`${url} answered ${response.statusCode}: ${text}`));
      });
    });
    call.once('error', reject);
    call.end(body);
  });
}
