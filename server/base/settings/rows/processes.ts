/** Settings: addresses and processes, database and keys. */
import { z } from 'zod';
import { parseNetwork } from '../../../model/address.ts';
import { parseConninfo } from '../../net/conninfo.ts';
import {
  commaList,
  count,
  fixed,
  flag,
  isKey,
  listenHost,
  oneOf,
  optionalCount,
  optionalText,
  origin,
  row,
  type Setting,
  trimmedText,
} from '../values.ts';

const MEMORY_MIN = 64 * 1024 ** 2;
const MEMORY_MAX = 1024 ** 4;

export const processesSettings = {
  HOST: fixed(listenHost)(
    'listen address of the serving processes; put a proxy in front before exposing it to the internet',
  ),
  PORT: fixed(count(8080, 1, 65535))('listen port; Weir refuses to start when another program uses it'),
  PUBLIC_URL: row({ ...origin, fallbackShown: 'http://HOST:PORT' })(
    'origin of the pages as a browser sees it (TLS ends at a proxy); https makes cookies Secure',
  ),
  FRONTEND_PUBLIC_API_URL: row({ ...origin, fallbackShown: 'PUBLIC_URL' })(
    'API base URL as browsers and senders reach it; used in webhook URLs',
  ),
  TRUSTED_PROXIES: {
    schema: commaList.refine((list) => list.every((item) => parseNetwork(item) !== null)),
    fallback: '',
    allowed: 'a comma list of addresses and CIDR networks',
    meaning: 'proxies whose FORWARDED_HEADER is trusted; the right-most untrusted address is the client',
  },
  FORWARDED_HEADER: row(oneOf(['forwarded', 'x-forwarded-for', 'proxy-protocol'], 'x-forwarded-for'))(
    'where TRUSTED_PROXIES pass the client address; the other two are ignored',
  ),
  SERVE_AS_ROOT: fixed(flag(false))(
    'whether the processes of a Weir that root started serve as root; false: they serve as the user weir, or the start is refused with the reason',
  ),
  WORKERS: row({ ...optionalCount(1, 1024), fallbackShown: 'available cores' })(
    'number of serving processes; all listen on the same port',
  ),
  THREADS: row(count(1, 1, 64))('HMAC threads in each process'),
  HMAC_TIMEOUT_MS: row(count(2_000, 50, 60_000))(
    'requests of a verification batch that takes longer are verified again one by one, in another thread',
  ),
  PROCESS_READY_SECONDS: row(count(30, 1, 600))(
    'a new process that does not listen within this time is stopped; in a rolling restart the old process continues to serve',
  ),
  PROCESS_SILENT_SECONDS: row(count(30, 5, 3_600))(
    'a process that has not answered the primary for this long is killed and replaced: it hangs, and the requests on its connections wait',
  ),
  PROCESS_MEMORY_MAX: {
    ...optionalCount(MEMORY_MIN, MEMORY_MAX),
    allowed: `a number of bytes from ${MEMORY_MIN} (64 MiB) to ${MEMORY_MAX} (1 TiB)`,
    meaning:
      'a process with more resident memory is replaced like in a rolling restart, each at most once a minute; unset: no limit',
  },
  DRAIN_DELAY_SECONDS: row(count(0, 0, 3_600))(
    'after TERM, readyz answers 503 while all requests are still served for this long',
  ),
  DRAIN_SECONDS: row(count(15, 1, 3_600))('then the listener closes; open requests are answered within this time'),
} as const satisfies Record<string, Setting>;

const key = { schema: z.string().refine(isKey), allowed: '32 bytes in base64', secret: true, fixed: true } as const;

export const databaseSettings = {
  DATA_DIR: {
    schema: trimmedText,
    fallbackShown: './data; /var/lib/weir for root',
    allowed: 'a directory',
    meaning: 'embedded database and generated keys',
    fixed: true,
  },
  DATABASE_URL: {
    schema: trimmedText.refine((conninfo) => parseConninfo(conninfo) !== null),
    allowed:
      'a Postgres connection string, as libpq reads it; @, / and : in the user and the password of a URI are written %40, %2F and %3A',
    meaning:
      'connection to Postgres; if unset, POSTGRES_HOST and the four settings below apply; if all are unset, Weir runs an embedded Postgres in DATA_DIR',
    secret: true,
    fixed: true,
  },
  POSTGRES_HOST: fixed({ ...optionalText('a host name, address or socket directory'), fallbackShown: 'localhost' })(
    'host of Postgres when any POSTGRES_* setting is set',
  ),
  POSTGRES_PORT: fixed(optionalCount(1, 65535))('database port'),
  POSTGRES_DB: fixed(optionalText('a database name'))('database name'),
  POSTGRES_USER: fixed(optionalText('a role name'))('database user'),
  POSTGRES_PASSWORD: fixed({
    ...optionalText(
      'at least 12 characters, different from POSTGRES_USER and POSTGRES_DB, without the words postgres and password',
    ),
    secret: true,
  })('database password; Weir refuses to start with a weak one'),
  DB_POOL_MAX: row(count(4, 1, 1000))(
    'connections of a process in addition to its two for COPY; Weir refuses to start when the total exceeds the limit of the server',
  ),
  SECRETS_KEY: {
    ...key,
    fallbackShown: 'generated in DATA_DIR',
    allowed: '32 bytes in base64 (openssl rand -base64 32)',
    meaning:
      'encrypts webhook secrets and signs agent sessions (separate derived keys); required when the database is not the embedded one',
  },
  SECRETS_KEY_PREVIOUS: row(key)('the previous key, still used to decrypt; not needed after weir keys rotate'),
} as const satisfies Record<string, Setting>;
