/** Settings: delivery and retention. */
import { count, optionalText, type Setting } from '../values.ts';

export const deliverySettings = {
  DELIVERY_MAX_ATTEMPTS: count(10, 1, 1_000, 'attempts of a delivery before it is a dead letter'),
  FILTER_TIMEOUT_MS: count(
    500,
    50,
    60_000,
    'time limit on the filter of a subscription for one event; an event for which it takes longer is delivered',
  ),
  REPLAY_DELIVERIES_PER_SECOND: count(
    1_000,
    1,
    1_000_000,
    'deliveries that jobs create per second when they replay many events, over all machines',
  ),
  RETENTION_DAYS: count(30, 1, 3_650, 'days for which events and finished deliveries are kept'),
  KEEP_UNDELIVERED_DAYS: count(
    0,
    0,
    3_650,
    'days for which events with pending or leased deliveries are kept longer than RETENTION_DAYS; a day (UTC) with such events is kept whole',
  ),
  ARCHIVE_DIR: optionalText(
    'an existing directory',
    'directory where each day is written as compressed NDJSON before retention drops it; unset: not written',
  ),
} as const satisfies Record<string, Setting>;
