/** Dependencies that all parts of a process share. */

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
  /** Makes changes and notifies every process. */
  changes: Changes;
  limiter: RateLimiter;
}
