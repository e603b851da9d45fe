/** One window at a constant arrival rate. */
import { setTimeout as delay } from 'node:timers/promises';
import { benchBody, requestBytes, signedRequest } from '../../server/operate/load/environment.ts';
import { openSenders } from '../../server/operate/load/window.ts';
import type { SenderReport } from '../../workers/sender.ts';

export interface OpenLoopWindow {
  answers: number;
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
  p999Ms: number;
  maxMs: number;
  /** Answers other than 202 by status, and broken connections by error, warm-up included. */
  failures: Record<string, number>;
}

interface Order {
  /** Webhooks; they get the same rate, from a thread each. */
  urls: readonly string[];
  secret: string;
  perSecond: number;
  seconds: number;
}

const BODY_BYTES = 1024;
/** Connections of all threads. A request that finds none free waits, and that time counts. */
const CONNECTIONS = 510;
export const WARM_UP_SECONDS = 10;

/** Latency counts from the time when a request was due. */
export async function measureOpenLoop(
  { urls, secret, perSecond, seconds }: Order,
  signal: AbortSignal,
): Promise<OpenLoopWindow> {
  const request = signedRequest(secret, benchBody(BODY_BYTES));
  const load = { connections: CONNECTIONS / urls.length, perSecond: perSecond / urls.length };
  const senders = openSenders(
    urls.map((url) => {
      const { port, pathname } = new URL(url);
      return { port: Number(port), request: requestBytes(Number(port), pathname, request), ...load };
    }),
  );
  try {
    await delay(WARM_UP_SECONDS * 1000, undefined, { signal });
    senders.measure();
    await delay(seconds * 1000, undefined, { signal });
    const [first, ...others] = (await senders.stop()) as [SenderReport, ...SenderReport[]];
    const { latenciesUs } = first;
    const failures: Record<string, number> = {};
    for (const report of others) latenciesUs.add(report.latenciesUs);
    for (const { statuses, errors } of [first, ...others])
      for (const [name, times] of [...Object.entries(statuses), ...Object.entries(errors)])
        if (name !== '202') failures[name] = (failures[name] ?? 0) + times;
    const ms = (share: number) => latenciesUs.percentile(share) / 1000;
    const { count: answers, max } = latenciesUs;
    const figures = { p50Ms: ms(50), p99Ms: ms(99), p999Ms: ms(99.9), maxMs: max / 1000 };
    return { answers, perSecond: answers / seconds, ...figures, failures };
  } finally {
    await senders.terminate();
  }
}
