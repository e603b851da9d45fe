/**
 * The table of all settings, one row each. The README's table and `.env.example` are generated from it; a test fails if they
 * differ. read.ts parses the environment by it.
 */
import { z } from 'zod';
import { parseNetwork } from '../net/address.ts';

const wholeNumber = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d+$/)
    .transform(Number)
    .refine((value) => value >= min && value <= max);

const origin = z.string().refine(isOrigin);
const isTrimmed = (text: string) => text.trim() === text;
const text = z.string().min(1).refine(isTrimmed);
const commaList = z.string().transform((list) =>
  list
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== ''),
);

/** One row: the accepted values (`allowed` describes them in text), the default and the meaning. */
export interface Setting {
  schema: z.ZodType<unknown, string>;
  /** The default, as written in the environment; null: unset. */
  fallback: string | null;
  /** Shown in place of `fallback` if the default is computed. */
  fallbackShown?: string;
  allowed: string;
  meaning: string;
  secret?: true;
  /** The primary reads it once: HUP refuses a change, which needs a restart of the service. Other changes apply to new processes. */
  fixed?: true;
}

const count = (fallback: number, min: number, max: number, meaning: string) => ({
  schema: wholeNumber(min, max),
  fallback: String(fallback),
  allowed: `a whole number from ${min} to ${max}`,
  meaning,
});

const optionalText = (allowed: string, meaning: string) => ({ schema: text, fallback: null, allowed, meaning });

const MEMORY_MIN = 64 * 1024 ** 2;
const MEMORY_MAX = 1024 ** 4;

export const settingTable = {
  HOST: {
    schema: text,
    fallback: '127.0.0.1',
    allowed: 'an IP address or a host name',
    meaning: 'listen address of the serving processes; put a proxy in front before exposing it to the internet',
    fixed: true,
  },
  PORT: { ...count(8080, 1, 65535, 'listen port; Weir refuses to start when another program uses it'), fixed: true },
  PUBLIC_URL: {
    schema: origin,
    fallback: null,
    fallbackShown: 'http://HOST:PORT',
    allowed: 'an http or https origin without a path',
    meaning: 'origin of the pages as a browser sees it (TLS ends at a proxy); https makes cookies Secure',
  },
  WORKERS: {
    ...count(0, 1, 1024, 'number of serving processes; all listen on the same port'),
    fallback: null,
    fallbackShown: 'available cores',
  },
  PROCESS_READY_SECONDS: count(
    30,
    1,
    600,
    'a new process that does not listen within this time is stopped; in a rolling restart the old process continues to serve',
  ),
  PROCESS_MEMORY_MAX: {
    schema: wholeNumber(MEMORY_MIN, MEMORY_MAX),
    fallback: null,
    allowed: `a number of bytes from ${MEMORY_MIN} (64 MiB) to ${MEMORY_MAX} (1 TiB)`,
    meaning:
      'a process with more resident memory is replaced like in a rolling restart, each at most once a minute; unset: no limit',
  },
  PROCESS_SILENT_SECONDS: count(
    30,
    5,
    3_600,
    'a process that has not answered the primary for this long is killed and replaced: it hangs, and the requests on its connections wait',
  ),
  THREADS: count(1, 1, 64, 'HMAC threads in each process'),
  DATA_DIR: {
    schema: text,
    fallback: null,
    fallbackShown: './data; /var/lib/weir for root',
    allowed: 'a directory',
    meaning: 'embedded database and generated keys',
    fixed: true,
  },
  DATABASE_URL: {
    ...optionalText(
      'a Postgres connection string, as libpq reads it',
      'connection to Postgres; if unset, POSTGRES_HOST and the four settings below apply; if all are unset, Weir runs an embedded Postgres in DATA_DIR',
    ),
    secret: true,
    fixed: true,
  },
  POSTGRES_HOST: {
    ...optionalText('a host name, address or socket directory', 'host of Postgres when any POSTGRES_* setting is set'),
    fallbackShown: 'localhost',
    fixed: true,
  },
  POSTGRES_DB: { ...optionalText('a database name', 'database name'), fixed: true },
  POSTGRES_USER: { ...optionalText('a role name', 'database user'), fixed: true },
  POSTGRES_PORT: {
    ...count(0, 1, 65535, 'database port'),
    fallback: null,
    fixed: true,
  },
  POSTGRES_PASSWORD: {
    ...optionalText(
      'at least 12 characters, different from POSTGRES_USER and POSTGRES_DB, without the words postgres and password',
      'database password; Weir refuses to start with a weak one',
    ),
    secret: true,
    fixed: true,
  },
  DB_POOL_MAX: count(
    4,
    1,
    1000,
    'connections of a process in addition to its two for COPY; Weir refuses to start when the total exceeds the limit of the server',
  ),
  AUTH_MODE: {
    schema: z.enum(['local', 'hosted']),
    fallback: 'local',
    allowed: 'local or hosted',
    meaning: 'who authenticates users: Weir itself, or an OpenID Connect provider',
    fixed: true,
  },
  OIDC_ISSUER: {
    schema: text.refine(isIssuer),
    fallback: null,
    allowed: 'an https address without a query, exactly as the provider states it (http only for a loopback address)',
    meaning: 'OpenID Connect issuer; required when AUTH_MODE is hosted',
  },
  OIDC_CLIENT_ID: optionalText('the client id at the provider', 'required when AUTH_MODE is hosted'),
  OIDC_CLIENT_SECRET: {
    ...optionalText('the client secret at the provider', 'required when AUTH_MODE is hosted'),
    secret: true,
  },
  OIDC_ROLE_CLAIM: {
    schema: text,
    fallback: 'weir_role',
    allowed: 'the name of a claim; dots separate nested members (realm_access.roles)',
    meaning: 'claim that holds administrator, operator or viewer, or a list of them (the highest applies)',
  },
  OIDC_SCOPES: {
    schema: text.refine((scopes) => scopes.split(' ').includes('openid')),
    fallback: 'openid profile email',
    allowed: 'scopes separated by spaces, including openid',
    meaning: 'scopes that Weir requests at sign-in',
  },
  OIDC_AUDIENCE: {
    ...optionalText('a value that the provider puts into the claim aud', 'audience of bearer JWTs for the API'),
    fallbackShown: 'OIDC_CLIENT_ID',
  },
  OIDC_SESSION_MINUTES: count(
    60,
    5,
    720,
    'duration of a hosted session, unless the provider confirms it during that time',
  ),
  OIDC_ROLE_DAYS: count(
    30,
    1,
    3_650,
    'days after the last sign-in at the provider for which API tokens of a hosted user stay active',
  ),
  FRONTEND_PUBLIC_API_URL: {
    schema: origin,
    fallback: null,
    fallbackShown: 'PUBLIC_URL',
    allowed: 'an http or https origin without a path',
    meaning: 'API base URL as browsers and senders reach it; used in webhook URLs',
  },
  FRONTEND_PUBLIC_AUTH_MODE: {
    schema: z.enum(['local', 'hosted']),
    fallback: null,
    fallbackShown: 'AUTH_MODE',
    allowed: 'local or hosted',
    meaning: 'must match AUTH_MODE; Weir refuses to start on a mismatch',
  },
  CORS_ORIGINS: {
    schema: commaList.refine((list) => list.every(isOrigin)),
    fallback: '',
    allowed: 'a comma list of origins (https://example.org); * is refused',
    meaning: 'origins whose pages may call the API, exact match, credentials allowed',
  },
  REQUEST_LOG_SLOW_MS: count(
    1000,
    0,
    3_600_000,
    'requests that take this long are logged as slow; intended waits, such as long polling, do not count; 0 disables it',
  ),
  RATE_LIMIT_BACKEND: {
    schema: z.enum(['memory', 'shared']),
    fallback: 'memory',
    allowed: 'memory or shared',
    meaning: 'where counters are kept: in each process (add a limit at the proxy), or in Redis for all processes',
  },
  RATE_LIMIT_SHARED_URL: {
    schema: commaList.refine((list) => list.length > 0 && list.every(isRedisUrl)),
    fallback: null,
    allowed: 'a redis:// or rediss:// address; a comma list means Redis Cluster',
    meaning: 'Redis of the shared counters',
    secret: true,
  },
  RQ_SHARED_URL: {
    schema: commaList.refine((list) => list.length > 0 && list.every(isRedisUrl)),
    fallback: null,
    allowed: 'a redis:// or rediss:// address; a comma list means Redis Cluster',
    meaning: 'fallback for RATE_LIMIT_SHARED_URL',
    secret: true,
  },
  RATE_LIMIT_INGEST_MAX: count(60, 1, 1_000_000_000, 'webhook requests per window and client address'),
  RATE_LIMIT_INGEST_WINDOW_SECONDS: count(60, 1, 86_400, 'its window'),
  RATE_LIMIT_AGENT_AUTH_MAX: count(20, 1, 1_000_000_000, 'agent authentications per window and client address'),
  RATE_LIMIT_AGENT_AUTH_WINDOW_SECONDS: count(60, 1, 86_400, 'its window'),
  RATE_LIMIT_SIGN_IN_MAX: count(
    60,
    1,
    1_000_000_000,
    'sign-in and set-up requests (pages and API) per window and client address',
  ),
  RATE_LIMIT_SIGN_IN_WINDOW_SECONDS: count(60, 1, 86_400, 'its window'),
  RATE_LIMIT_KEYS_MAX: count(
    100_000,
    1_000,
    10_000_000,
    'maximum client addresses in the memory counters of a process',
  ),
  WEBHOOK_MAX_PAYLOAD_BYTES: count(1_048_576, 1, 268_435_456, 'maximum payload; larger requests are answered 413'),
  BATCH_LINES_MAX: count(1000, 1, 100_000, 'maximum lines of one batch request'),
  CHUNKED_BODIES: {
    schema: z.enum(['refuse', 'accept']),
    fallback: 'refuse',
    allowed: 'refuse or accept',
    meaning: 'requests with Transfer-Encoding: chunked; refuse answers 411 and closes the connection',
  },
  BODY_BYTES_HELD_MAX: count(
    67_108_864,
    1_048_576,
    17_179_869_184,
    'maximum bytes of request bodies that one process holds at a time; above it the response is 503',
  ),
  CLIENT_BODY_BYTES_HELD_MAX: count(
    16_777_216,
    65_536,
    17_179_869_184,
    'the same limit for unfinished bodies of one client address (IPv6: its /64), so that slow senders cannot starve others',
  ),
  CLIENT_REQUESTS_MAX: count(
    1024,
    1,
    1_000_000,
    'maximum unfinished requests of one client address (IPv6: its /64) in a process; above it the response is 503',
  ),
  STREAMS_MAX: count(
    200,
    1,
    10_000,
    'maximum live streams (GET /api/v1/stream) of a process; above it the response is 503',
  ),
  USER_STREAMS_MAX: count(20, 1, 10_000, 'maximum live streams of one user in a process; above it the response is 429'),
  HEADER_BYTES_MAX: count(16_384, 1_024, 65_536, 'maximum request header bytes; above it the response is 431'),
  QUEUE_EVENTS_MAX: count(
    20_000,
    1,
    1_000_000,
    'maximum verified events that wait for their commit in one process; above it the response is 503',
  ),
  COMMIT_EVENTS_MAX: count(2_000, 1, 100_000, 'maximum events in one commit'),
  COMMIT_TIMEOUT_MS: count(10_000, 100, 600_000, 'a commit that takes longer is treated as a lost connection'),
  INGEST_SPOOL_DIR: {
    ...optionalText(
      'a directory on a local disk',
      'while the database cannot commit, events are written here and answered 202; if unset, they are answered 503',
    ),
    fixed: true,
  },
  INGEST_SPOOL_BYTES_MAX: {
    ...count(
      1_073_741_824,
      16_777_216,
      1_099_511_627_776,
      'maximum bytes of the spool of this machine; above it the response is 503',
    ),
    fixed: true,
  },
  INGEST_SPOOL_HOURS_MAX: {
    ...count(
      24,
      1,
      144,
      'when the oldest event in the spool is older, new events are answered 503; nothing is dropped',
    ),
    fixed: true,
  },
  FILTER_TIMEOUT_MS: count(
    500,
    50,
    60_000,
    'time limit on the filter of a subscription for one event; an event for which it takes longer is delivered',
  ),
  HMAC_TIMEOUT_MS: count(2_000, 50, 60_000, 'a verification batch that takes longer is moved to another thread, once'),
  TRUSTED_PROXIES: {
    schema: commaList.refine((list) => list.every((item) => parseNetwork(item) !== null)),
    fallback: '',
    allowed: 'a comma list of addresses and CIDR networks',
    meaning: 'proxies whose FORWARDED_HEADER is trusted; the right-most untrusted address is the client',
  },
  FORWARDED_HEADER: {
    schema: z.enum(['forwarded', 'x-forwarded-for', 'proxy-protocol']),
    fallback: 'x-forwarded-for',
    allowed: 'forwarded, x-forwarded-for or proxy-protocol',
    meaning: 'where TRUSTED_PROXIES pass the client address; the other two are ignored',
  },
  DELIVERY_MAX_ATTEMPTS: count(10, 1, 1_000, 'attempts of a delivery before it is a dead letter'),
  REPLAY_DELIVERIES_PER_SECOND: count(
    1_000,
    1,
    1_000_000,
    'deliveries that jobs create per second when they replay many events, over all machines',
  ),
  REJECTIONS_KEPT_MAX: count(
    1_000,
    10,
    10_000,
    'maximum rejections kept (the newest); at most a fifth of them of one webhook',
  ),
  REJECTIONS_KEPT_BYTES_MAX: count(
    33_554_432,
    1_048_576,
    1_073_741_824,
    'maximum bytes of rejections kept, including bodies',
  ),
  REJECTION_BODY_BYTES_MAX: count(
    65_536,
    0,
    1_048_576,
    'maximum body kept with a rejection; a larger one has no diagnosis and cannot be checked again',
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
  ALERT_URL: {
    schema: text.refine(isAlertUrl),
    fallback: null,
    allowed: 'an http or https URL without user, password and fragment, at most 2000 characters',
    meaning: 'alerts are posted here when they begin and when they end; unset: they are only shown',
    secret: true,
  },
  ALERT_SECRET: {
    schema: z.string().refine(isAlertSecret),
    fallback: null,
    allowed: '24 to 64 bytes in base64, with the prefix whsec_ (echo whsec_$(openssl rand -base64 32))',
    meaning: 'signs the requests to ALERT_URL as Standard Webhooks says; unset: they have no signature',
    secret: true,
  },
  ALERT_PRIVATE_NETWORKS: {
    schema: z.enum(['refuse', 'allow']),
    fallback: 'refuse',
    allowed: 'refuse or allow',
    meaning: 'whether ALERT_URL may be on loopback or a private network; link-local addresses are always refused',
  },
  ALERT_PENDING_SECONDS: count(
    300,
    10,
    604_800,
    'an alert begins when the oldest pending delivery of an agent has waited for longer',
  ),
  ALERT_REJECTIONS_PER_MINUTE: count(
    60,
    1,
    1_000_000,
    'an alert begins when more requests to a webhook are rejected in a minute',
  ),
  DRAIN_DELAY_SECONDS: count(
    0,
    0,
    3_600,
    'after TERM, readyz answers 503 while all requests are still served for this long',
  ),
  DRAIN_SECONDS: count(15, 1, 3_600, 'then the listener closes; open requests are answered within this time'),
  METRICS_HOST: {
    schema: text,
    fallback: '127.0.0.1',
    allowed: 'an IP address or a host name',
    meaning: 'listen address of /metrics',
    fixed: true,
  },
  METRICS_PORT: {
    ...count(9464, 1, 65_535, 'port of /metrics: Prometheus text, summed over processes'),
    fixed: true,
  },
  SECRETS_KEY: {
    schema: z.string().refine(isKey),
    fallback: null,
    fallbackShown: 'generated in DATA_DIR',
    allowed: '32 bytes in base64 (openssl rand -base64 32)',
    meaning:
      'encrypts webhook secrets and signs agent sessions (separate derived keys); required when the database is not the embedded one',
    secret: true,
    fixed: true,
  },
  SECRETS_KEY_PREVIOUS: {
    schema: z.string().refine(isKey),
    fallback: null,
    allowed: '32 bytes in base64',
    meaning: 'the previous key, still used to decrypt; not needed after weir keys rotate',
    secret: true,
    fixed: true,
  },
  ADMIN_EMAIL: {
    schema: text.pipe(z.email()),
    fallback: null,
    allowed: 'an email address',
    meaning:
      'email of the first administrator, created at the start when there is none; an existing user is never changed',
  },
  ADMIN_PASSWORD: {
    ...optionalText(
      '12 to 200 characters, not a common password, no part of the address',
      'password of ADMIN_EMAIL; without both, the start prints a one-time setup URL while there is no administrator',
    ),
    secret: true,
  },
  LOG_LEVEL: {
    schema: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']),
    fallback: 'info',
    allowed: 'a pino level (trace, debug, info, warn, error, fatal, silent)',
    meaning: 'JSON lines on stdout, readable lines on a terminal; debug logs every request',
  },
} as const satisfies Record<string, Setting>;

function isOrigin(value: string): boolean {
  const url = tryUrl(value);
  // Reject wildcards: a URL accepts `*` in the host name, but a setting must name one origin.
  return url !== null && /^https?:$/.test(url.protocol) && url.origin === value && !value.includes('*');
}

/** Rejects URLs with parts that point discovery away from the issuer, and plain HTTP to hosts other than loopback. */
function isIssuer(value: string): boolean {
  const url = tryUrl(value);
  if (url === null || /[?#@]|\/\.well-known\//.test(value)) return false;
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname));
}

function isLoopback(host: string): boolean {
  return /^(localhost|127(\.\d+){3}|\[::1\])$/.test(host);
}

function isRedisUrl(value: string): boolean {
  const url = tryUrl(value);
  return url !== null && /^rediss?:$/.test(url.protocol) && url.hostname !== '';
}

function isAlertUrl(value: string): boolean {
  const url = tryUrl(value);
  if (url === null || value.length > 2_000 || value.includes('#')) return false;
  return /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
}

function isAlertSecret(value: string): boolean {
  const base64 = value.replace(/^whsec_/, '');
  const bytes = Buffer.from(base64, 'base64');
  return bytes.toString('base64') === base64 && bytes.length >= 24 && bytes.length <= 64;
}

function tryUrl(value: string): URL | null {
  try {
    return new URL(value);
  } catch {
    return null;
  }
}

function isKey(value: string): boolean {
  return /^[A-Za-z0-9+/]{43}=$/.test(value) && Buffer.from(value, 'base64').length === 32;
}
