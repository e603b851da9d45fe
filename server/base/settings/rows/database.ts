/** Settings: database and keys. */
import { z } from 'zod';
import { parseConninfo } from '../../net/conninfo.ts';
import { count, fixed, isKey, optionalCount, optionalText, row, type Setting, text } from '../values.ts';

const key = { schema: z.string().refine(isKey), allowed: '32 bytes in base64', secret: true, fixed: true } as const;

export const databaseSettings = {
  DATA_DIR: {
    schema: text,
    fallbackShown: './data; /var/lib/weir for root',
    allowed: 'a directory',
    meaning: 'embedded database and generated keys',
    fixed: true,
  },
  DATABASE_URL: {
    schema: text.refine((conninfo) => parseConninfo(conninfo) !== null),
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
