/** A queue as a contestant of `npm run bench -- peers`: it stores jobs, and runs them with a handler. */
import type pg from 'pg';

export interface Queue {
  /** Stores a job. Resolves with its id when it is committed. */
  add(body: string): Promise<string>;
  /** Stores many jobs, as fast as the library can. */
  fill(count: number, body: string): Promise<void>;
  /** Runs jobs until the process ends. `handle` gets the id of each job. */
  consume(concurrency: number, handle: (id: string) => void): Promise<void>;
}

/** Address of the stores, and the name of the queue. */
export interface QueueOrder {
  database: Required<Pick<pg.PoolConfig, 'host' | 'port' | 'user' | 'database'>>;
  redisPort: number;
  queue: string;
  weir: WeirOrder;
}

/** A webhook with an agent. */
export interface WeirOrder {
  origin: string;
  credential: string;
  url: string;
  headers: Record<string, string>;
  /** The body that the headers sign. */
  body: string;
}

/** Jobs of one INSERT while a queue is filled. */
const FILL_AT_ONCE = 2_000;

/** Calls `insert` until `count` jobs are stored. */
export async function fillBy(count: number, insert: (jobs: number) => Promise<unknown>): Promise<void> {
  for (let left = count; left > 0; left -= FILL_AT_ONCE) await insert(Math.min(left, FILL_AT_ONCE));
}
