/** What every part of a process is built from. */
import type { Settings } from '../config.ts';
import type { Changes } from '../db/announce.ts';
import type { Database } from '../db/pool.ts';
import type { SecretsKeys } from '../keys.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import type { Observers } from '../observe.ts';
import type { RateLimiter } from '../ratelimit/limiter.ts';

export interface Base {
  settings: Settings;
  conninfo: string;
  keys: SecretsKeys;
  log: Log;
  metrics: Metrics;
  observe: Observers;
  database: Database;
  /** Makes changes that every process must know of. */
  changes: Changes;
  limiter: RateLimiter;
}
