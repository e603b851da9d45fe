/** Eight consumers of an agent with order_by, who do to deliveries what consumers do, and what they must never see. */
import type { Database } from '../../server/store/connect/pool.ts';
import type { Delivery, TestAgent } from './agents.ts';
import { signedRequest } from './requests.ts';

const KEYS = 5;
const EVENTS_OF_KEY = 60;
const BATCH = 5;
const CONSUMERS = 8;
/** Tells these leases from those of claims whose response is read, which are half as long. */
const LOST_LEASE_SECONDS = 3_600;

/** Numbers from 0 to 1, the same in each run. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

/** What may be claimed of each key: nothing beside the delivery that was begun, and nothing before those sent earlier. */
class Queues {
  /** Event ids of each key in the order in which they were sent, as far as they are not finished. */
  readonly left = new Map<string, string[]>();
  readonly begun = new Map<string, string>();
  readonly faults: string[] = [];

  claimed(key: string, id: string): void {
    const other = this.begun.get(key);
    if (other !== undefined && other !== id) this.faults.push(`${id} beside ${other} of key ${key}`);
    if (this.left.get(key)?.[0] !== id) this.faults.push(`${id} before ${this.left.get(key)?.[0]} of key ${key}`);
    this.begun.set(key, id);
  }

  /** Called before the acknowledgement is sent: from then on the next one may be claimed. */
  finishing(key: string, id: string): void {
    this.begun.delete(key);
    this.left.set(key, this.left.get(key)?.filter((one) => one !== id) ?? []);
  }
}

export interface OrderedPlace {
  /** Its agent orders by `/key`. */
  webhook: { url: string; secret: string | null };
  /** The agent, at each address where it claims. */
  places: readonly TestAgent[];
  /** Holds its deliveries. */
  database: Pick<Database, 'query'>;
}

/** How a run went. */
export interface OrderedRun {
  /** What was claimed out of turn. */
  faults: string[];
  /** Events that were not delivered. */
  left: string[];
}

/**
 * Sends events of several keys, and handles each with nacks, releases, lost claims and expired leases between. The Weir must not give up
 * deliveries soon.
 * @param replay called once half of them are handled: replays some, whose deliveries are ordered among themselves, after a call of `expectAgain`
 */
export async function deliverInOrder(
  { webhook, places, database }: OrderedPlace,
  replay: (expectAgain: (eventIds: readonly string[]) => void) => Promise<void> = async () => {},
): Promise<OrderedRun> {
  const live = new Queues();
  const replayed = new Queues();
  /** Keys of the events whose first delivery was acknowledged. */
  const finished = new Map<string, string>();
  let expected = KEYS * EVENTS_OF_KEY;
  let acknowledged = 0;

  const sending = Array.from({ length: KEYS }, async (_, index) => {
    const key = String(index);
    live.left.set(key, []);
    for (let sent = 0; sent < EVENTS_OF_KEY; sent += BATCH) {
      const lines = Array.from({ length: BATCH }, () => JSON.stringify({ key }));
      const response = await fetch(`${webhook.url}/batch`, signedRequest({ ...webhook, body: lines.join('\n') }));
      const { ids } = (await response.json()) as { ids: string[] };
      // A consumer may have claimed them before this response was read: it waits until they are known.
      live.left.get(key)!.push(...ids);
    }
  });

  const keyOf = ({ event }: Delivery) => (JSON.parse(event.body!) as { key: string }).key;
  const known = async (key: string, id: string) => {
    while (!live.left.get(key)!.includes(id) && !finished.has(id)) await new Promise((next) => setImmediate(next));
  };

  async function consume(place: TestAgent, random: () => number): Promise<void> {
    while (acknowledged < expected) {
      const isLost = random() < 0.1;
      const abort = new AbortController();
      if (isLost) setTimeout(() => abort.abort(), random() * 5);
      const lease_seconds = isLost ? LOST_LEASE_SECONDS : 1_800;
      const order = { max: 1 + Math.floor(random() * 4), lease_seconds, wait_seconds: 1 };
      const answer = await place.post('claim', order, abort.signal).catch(() => null);
      const deliveries: Delivery[] = isLost ? [] : answer!.body.deliveries;
      if (deliveries.length === 0) await expireLost();
      for (const delivery of deliveries) {
        const key = keyOf(delivery);
        const { id } = delivery.event;
        await known(key, id);
        const queues = finished.has(id) ? replayed : live;
        queues.claimed(key, id);
        const chance = random();
        if (chance < 0.15) await place.nack([delivery.receipt], { delay_seconds: 0 });
        else if (chance < 0.25) await place.nack([delivery.receipt], { release: true });
        else if (chance < 0.35) await expire(`id = $2`, delivery.id);
        else {
          queues.finishing(key, id);
          finished.set(id, key);
          if ((await place.ack([delivery.receipt])).done.length > 0) acknowledged++;
        }
      }
    }
  }

  /** Ends the leases of claims whose consumer was killed, or lost the response. */
  const expireLost = () => expire(`available_at > now() + $2::interval`, '31 minutes');

  async function expire(which: string, value: string): Promise<void> {
    await database.query({
      text: `update deliveries set available_at = now() where agent_id = $1 and state = 'leased' and ${which}`,
      values: [places[0]!.id, value],
    });
  }

  const consumers = Array.from({ length: CONSUMERS }, (_, i) => consume(places[i % places.length]!, randomFrom(i + 1)));
  await Promise.all(sending);
  while (acknowledged < expected / 2) await new Promise((next) => setTimeout(next, 5));
  await replay((eventIds) => {
    for (const id of [...eventIds].sort()) {
      const key = finished.get(id)!;
      replayed.left.set(key, [...(replayed.left.get(key) ?? []), id]);
    }
    expected += eventIds.length;
  });
  await Promise.all(consumers);
  return {
    faults: [...live.faults, ...replayed.faults],
    left: [...live.left.values(), ...replayed.left.values()].flat(),
  };
}
