/** A sender that repeats requests with a deduplication key again and again, and remembers the events that they were. */
import { setTimeout as delay } from 'node:timers/promises';
import { signedRequest } from '../../helpers/requests.ts';
import { until } from '../../helpers/wait.ts';

interface RepeaterOptions {
  port: number;
  path: string;
  secret: string;
  keyHeader: string;
}

export interface Repeater {
  /** Resolves when so many more keys were answered. */
  acceptMore(keys: number): Promise<void>;
  stop(): Promise<void>;
  /** After `stop`: repeats every key once more. Returns the events, one for each key; throws when a key is two. */
  repeatAll(): Promise<string[]>;
  /** Sends a request with a new key. Returns its event. */
  sendNew(): Promise<string>;
  /** Numbers of responses. */
  summary(): string;
}

const LANES = 4;
const PAUSE_MS = 20;
/** One request in so many has a new key. */
const NEW_EVERY = 3;

export function startRepeater({ port, path, secret, keyHeader }: RepeaterOptions): Repeater {
  const known = new Map<string, Set<string>>();
  const counts = new Map<string, number>();
  let stopped = false;
  let sent = 0;

  /** Null: it was refused, or not answered. */
  const send = async (key: string): Promise<string | null> => {
    const request = signedRequest({ secret, headers: { [keyHeader]: key } });
    const response = await fetch(`http://127.0.0.1:${port}${path}`, request).catch(() => null);
    const body = await response?.json().catch(() => null);
    const outcome = response === null || body === null ? 'no answer' : String(response.status);
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
    return outcome === '202' || outcome === '200' ? (body as { id: string }).id : null;
  };
  const remember = async (key: string) => {
    // Before it is sent: a request without an answer may be stored.
    const ids = known.get(key) ?? new Set();
    known.set(key, ids);
    const id = await send(key);
    if (id !== null) ids.add(id);
    return id !== null;
  };
  const lane = async (number: number) => {
    for (let made = 0, turn = 0; !stopped; turn++) {
      if (turn % NEW_EVERY === 0) made++;
      sent++;
      await remember(`${number}-${turn % NEW_EVERY === 0 ? made : 1 + ((turn * 7) % made)}`);
      await delay(PAUSE_MS);
    }
  };
  const running = Promise.all(Array.from({ length: LANES }, (_, number) => lane(number)));
  return {
    async acceptMore(keys) {
      const answered = () => [...known.values()].filter(({ size }) => size > 0).length;
      const wanted = answered() + keys;
      await until(() => answered() >= wanted);
    },
    async stop() {
      stopped = true;
      await running;
    },
    async repeatAll() {
      for (const key of known.keys()) await until(() => remember(key));
      const several = [...known].filter(([, ids]) => ids.size > 1);
      if (several.length > 0) throw new Error(`several events of one key: ${several.map(([key]) => key)}`);
      return [...known.values()].flatMap((ids) => [...ids]);
    },
    sendNew: () => until(() => send('new')),
    summary() {
      const parts = [...counts].map(([outcome, count]) => `${outcome}: ${count}`);
      return `${sent} requests (${parts.join(', ')}), ${known.size} keys, 0 lost, 0 twice`;
    },
  };
}
