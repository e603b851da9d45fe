/** One measured window: load on a running Weir, and the resources used. */
import { setTimeout as delay } from 'node:timers/promises';
import type { SenderOrder, SenderReport } from '../../../workers/sender.ts';
import { ownProcessorSeconds, processorSeconds } from './processor.ts';
import { watchResident } from './resident.ts';
import { openSenders } from './senders.ts';

export const WARM_UP_SECONDS = 2;

export interface Window {
  /** One report per sender. */
  reports: readonly SenderReport[];
  /** Highest resident memory of any serving process. */
  residentBytes: number;
  /** Average number of cores used. */
  cores: { weir: number; postgres: number; senders: number };
}

interface WindowOrder {
  load: SenderOrder;
  /** Sender threads, which share the connections. */
  senders: number;
  seconds: number;
  /** Ids of the serving processes. */
  weirPids: readonly number[];
  /** Called after the warm-up, when every database connection is open. */
  postgresPids: () => Promise<number[]>;
  /** Called once a second. */
  onSecond: () => void;
}

/** Resolves when every request has been answered. Rejects with AbortError when `stop` aborts. */
export async function measureWindow(order: WindowOrder, stop: AbortSignal): Promise<Window> {
  const senders = openSenders(order.senders, order.load);
  const ticking = setInterval(order.onSecond, 1000);
  try {
    await delay(WARM_UP_SECONDS * 1000, undefined, { signal: stop });
    const postgresPids = await order.postgresPids();
    const look = () => ({
      seconds: performance.now() / 1000,
      weir: processorSeconds(order.weirPids),
      postgres: processorSeconds(postgresPids),
      senders: ownProcessorSeconds(),
    });
    const before = look();
    senders.measure();
    const { peakBytes } = await watchResident(order.weirPids, () =>
      delay(order.seconds * 1000, undefined, { signal: stop }),
    );
    const after = look();
    const coresOf = (who: 'weir' | 'postgres' | 'senders') =>
      (after[who] - before[who]) / (after.seconds - before.seconds);
    return {
      reports: await senders.stop(),
      residentBytes: peakBytes,
      cores: { weir: coresOf('weir'), postgres: coresOf('postgres'), senders: coresOf('senders') },
    };
  } finally {
    clearInterval(ticking);
    await senders.terminate();
  }
}
