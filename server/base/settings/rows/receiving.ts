/** Settings: receiving events, delivery and retention. */
import { count, fixed, oneOf, optionalText, row, type Setting } from '../values.ts';

export const receivingSettings = {
  WEBHOOK_MAX_PAYLOAD_BYTES: row(count(1_048_576, 1, 268_435_456))('maximum payload; larger requests are answered 413'),
  BATCH_LINES_MAX: row(count(1000, 1, 100_000))('maximum lines of one batch request'),
  CHUNKED_BODIES: row(oneOf(['refuse', 'accept'], 'refuse'))(
    'requests with Transfer-Encoding: chunked; refuse answers 411 and closes the connection',
  ),
  HEADER_BYTES_MAX: row(count(16_384, 1_024, 65_536))('maximum request header bytes; above it the response is 431'),
  BODY_BYTES_HELD_MAX: row(count(67_108_864, 1_048_576, 17_179_869_184))(
    'maximum bytes of request bodies that one process holds at a time; above it the response is 503',
  ),
  QUEUE_EVENTS_MAX: row(count(20_000, 1, 1_000_000))(
    'maximum verified events in each queue of a process (without a deduplication key, with one, for the spool); above it the response is 503',
  ),
  COMMIT_EVENTS_MAX: row(count(2_000, 1, 100_000))('maximum events in one commit'),
  COMMIT_TIMEOUT_MS: row(count(10_000, 100, 600_000))('a commit that takes longer is treated as a lost connection'),
  INGEST_SPOOL_DIR: fixed(optionalText('a directory on a local disk'))(
    'while the database cannot commit, events are written here and answered 202; if unset, they are answered 503',
  ),
  INGEST_SPOOL_BYTES_MAX: fixed(count(1_073_741_824, 16_777_216, 1_099_511_627_776))(
    'maximum bytes of the spool of this machine; above it the response is 503',
  ),
  INGEST_SPOOL_HOURS_MAX: fixed(count(24, 1, 144))(
    'when the oldest event in the spool is older, new events are answered 503; nothing is dropped',
  ),
  REJECTIONS_KEPT_MAX: row(count(1_000, 10, 10_000))('maximum rejections kept; at most a fifth of them of one webhook'),
  REJECTIONS_KEPT_BYTES_MAX: row(count(33_554_432, 1_048_576, 1_073_741_824))(
    'maximum bytes of rejections kept, including bodies',
  ),
  REJECTION_BODY_BYTES_MAX: row(count(65_536, 0, 1_048_576))(
    'maximum body kept with a rejection; a larger one has no diagnosis and cannot be checked again',
  ),
} as const satisfies Record<string, Setting>;

export const deliverySettings = {
  DELIVERY_MAX_ATTEMPTS: row(count(10, 1, 1_000))('attempts of a delivery before it is a dead letter'),
  FILTER_TIMEOUT_MS: row(count(500, 50, 60_000))(
    'time limit on the filter of a subscription for one event; an event for which it takes longer is delivered',
  ),
  REPLAY_DELIVERIES_PER_SECOND: row(count(1_000, 1, 1_000_000))(
    'deliveries that jobs create per second when they replay many events, over all machines',
  ),
  RETENTION_DAYS: row(count(30, 1, 3_650))('days for which events and finished deliveries are kept'),
  KEEP_UNDELIVERED_DAYS: row(count(0, 0, 3_650))(
    'days for which events with pending or leased deliveries are kept longer than RETENTION_DAYS; a day (UTC) with such events is kept whole',
  ),
  ARCHIVE_DIR: row(optionalText('an existing directory'))(
    'directory where each day is written as compressed NDJSON before retention drops it; unset: not written',
  ),
} as const satisfies Record<string, Setting>;
