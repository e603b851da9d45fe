/** Settings: limits of clients, receiving events, delivery and retention. */
import {
  commaList,
  count,
  fixed,
  flag,
  isRedisUrl,
  oneOf,
  optionalCount,
  optionalText,
  row,
  type Setting,
} from '../values.ts';

const redisUrls = {
  schema: commaList.refine((list) => list.length > 0 && list.every(isRedisUrl)),
  allowed: 'a redis:// or rediss:// address; a comma list means Redis Cluster',
  secret: true,
} as const;
const window = row(count(60, 1, 86_400))('its window');

export const limitsSettings = {
  RATE_LIMIT_BACKEND: row(oneOf(['memory', 'shared'], 'memory'))(
    'where counters are kept: in each process (add a limit at the proxy), or in Redis for all processes',
  ),
  RATE_LIMIT_SHARED_URL: row(redisUrls)('Redis of the shared counters'),
  RQ_SHARED_URL: row(redisUrls)('fallback for RATE_LIMIT_SHARED_URL'),
  RATE_LIMIT_REQUIRED: fixed(flag(true))(
    'whether a start without the shared counters is refused; false: Weir serves, and requests are not counted until they are back',
  ),
  RATE_LIMIT_WAIT_SECONDS: fixed(count(30, 0, 3_600))(
    'how long a start waits for the shared counters; /healthz answers, and /readyz is 503',
  ),
  RATE_LIMIT_INGEST_MAX: row(count(60, 1, 1_000_000_000))('webhook requests per window and client address'),
  RATE_LIMIT_INGEST_WINDOW_SECONDS: window,
  RATE_LIMIT_AGENT_AUTH_MAX: row(count(20, 1, 1_000_000_000))('agent authentications per window and client address'),
  RATE_LIMIT_AGENT_AUTH_WINDOW_SECONDS: window,
  RATE_LIMIT_SIGN_IN_MAX: row(count(60, 1, 1_000_000_000))(
    'sign-in and setup requests (pages and API) per window and client address',
  ),
  RATE_LIMIT_SIGN_IN_WINDOW_SECONDS: window,
  RATE_LIMIT_ANONYMOUS_MAX: row(count(600, 1, 1_000_000_000))(
    'requests without valid credentials per window and client address, on every route that no other limit counts; health checks and assets are free',
  ),
  RATE_LIMIT_ANONYMOUS_WINDOW_SECONDS: window,
  RATE_LIMIT_KEYS_MAX: row(count(100_000, 1_000, 10_000_000))(
    'maximum client addresses in the memory counters of a process',
  ),
  CONNECTIONS_MAX: row({
    ...optionalCount(16, 10_000_000),
    fallbackShown: 'the limit of open files less 128 to 1,024 for the database, files and threads; at most 65,536',
  })(
    'maximum open connections of a process; above it new ones are closed without a response, and above 90 % of it each response closes its connection. The limit of open files less the reserve bounds it too',
  ),
  CLIENT_CONNECTIONS_MAX: row({
    ...optionalCount(1, 10_000_000),
    fallbackShown: 'a quarter of CONNECTIONS_MAX, at least 1,024',
  })(
    'maximum open connections of one client address (IPv6: its /64) to all processes of a machine; above it new ones are closed without a response (Linux). It does not apply to trusted proxies, loopback and private addresses',
  ),
  CLIENT_REQUESTS_MAX: row(count(1024, 1, 1_000_000))(
    'maximum unfinished requests of one client address (IPv6: its /64) in a process; above it the response is 503',
  ),
  CLIENT_BODY_BYTES_HELD_MAX: row(count(16_777_216, 65_536, 17_179_869_184))(
    'the same limit for unfinished bodies of one client address (IPv6: its /64), so that slow senders cannot starve others',
  ),
  CLIENT_UNREAD_BYTES_MAX: row(count(33_554_432, 65_536, 17_179_869_184))(
    'maximum bytes of responses to requests without valid credentials that one client address (IPv6: its /64) does not read; above it the response is 503 (Linux)',
  ),
  CLIENT_UNREAD_SECONDS: row(count(30, 1, 3_600))(
    'time in which a response to a request without valid credentials must be read, and without progress of an export; then the connection is closed',
  ),
  STREAMS_MAX: row(count(200, 1, 10_000))(
    'maximum live streams (GET /api/v1/stream) of a process; above it the response is 503',
  ),
  USER_STREAMS_MAX: row(count(20, 1, 10_000))(
    'maximum live streams of one user in a process; above it the response is 429',
  ),
} as const satisfies Record<string, Setting>;

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
