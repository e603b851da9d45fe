/** Settings: addresses and processes. */
import { z } from 'zod';
import { parseNetwork } from '../../../model/address.ts';
import { commaList, count, MEMORY_MAX, MEMORY_MIN, origin, type Setting, text, wholeNumber } from '../values.ts';

export const processesSettings = {
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
  FRONTEND_PUBLIC_API_URL: {
    schema: origin,
    fallback: null,
    fallbackShown: 'PUBLIC_URL',
    allowed: 'an http or https origin without a path',
    meaning: 'API base URL as browsers and senders reach it; used in webhook URLs',
  },
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
  SERVE_AS_ROOT: {
    schema: z.enum(['true', 'false']).transform((value) => value === 'true'),
    fallback: 'false',
    allowed: 'true or false',
    meaning:
      'whether the processes of a Weir that root started serve as root; false: they serve as the user weir, or the start is refused with the reason',
    fixed: true,
  },
  WORKERS: {
    ...count(0, 1, 1024, 'number of serving processes; all listen on the same port'),
    fallback: null,
    fallbackShown: 'available cores',
  },
  THREADS: count(1, 1, 64, 'HMAC threads in each process'),
  HMAC_TIMEOUT_MS: count(
    2_000,
    50,
    60_000,
    'requests of a verification batch that takes longer are verified again one by one, in another thread',
  ),
  PROCESS_READY_SECONDS: count(
    30,
    1,
    600,
    'a new process that does not listen within this time is stopped; in a rolling restart the old process continues to serve',
  ),
  PROCESS_SILENT_SECONDS: count(
    30,
    5,
    3_600,
    'a process that has not answered the primary for this long is killed and replaced: it hangs, and the requests on its connections wait',
  ),
  PROCESS_MEMORY_MAX: {
    schema: wholeNumber(MEMORY_MIN, MEMORY_MAX),
    fallback: null,
    allowed: `a number of bytes from ${MEMORY_MIN} (64 MiB) to ${MEMORY_MAX} (1 TiB)`,
    meaning:
      'a process with more resident memory is replaced like in a rolling restart, each at most once a minute; unset: no limit',
  },
  DRAIN_DELAY_SECONDS: count(
    0,
    0,
    3_600,
    'after TERM, readyz answers 503 while all requests are still served for this long',
  ),
  DRAIN_SECONDS: count(15, 1, 3_600, 'then the listener closes; open requests are answered within this time'),
} as const satisfies Record<string, Setting>;
