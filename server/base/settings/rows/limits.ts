/** Settings: limits of clients. */
import { commaList, count, fixed, flag, isRedisUrl, oneOf, optionalCount, row, type Setting } from '../values.ts';

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
