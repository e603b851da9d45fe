/** What every part of a process is built from. */

import type { Changes } from '../db/announce.ts';
import type { Database } from '../db/pool.ts';
import type { RateLimiter } from '../ratelimit/limiter.ts';
import type { SecretsKeys } from '../secrets/keys.ts';
import type { Settings } from '../settings/read.ts';
import type { Log } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Observers } from './observe.ts';

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
