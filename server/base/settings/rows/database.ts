/** Settings: database and keys. */
import { z } from 'zod';
import { parseConninfo } from '../../net/conninfo.ts';
import { count, isKey, optionalText, type Setting, text } from '../values.ts';

export const databaseSettings = {
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
      'a Postgres connection string, as libpq reads it; @, / and : in the user and the password of a URI are written %40, %2F and %3A',
      'connection to Postgres; if unset, POSTGRES_HOST and the four settings below apply; if all are unset, Weir runs an embedded Postgres in DATA_DIR',
    ),
    schema: text.refine((conninfo) => parseConninfo(conninfo) !== null),
    secret: true,
    fixed: true,
  },
  POSTGRES_HOST: {
    ...optionalText('a host name, address or socket directory', 'host of Postgres when any POSTGRES_* setting is set'),
    fallbackShown: 'localhost',
    fixed: true,
  },
  POSTGRES_PORT: {
    ...count(0, 1, 65535, 'database port'),
    fallback: null,
    fixed: true,
  },
  POSTGRES_DB: { ...optionalText('a database name', 'database name'), fixed: true },
  POSTGRES_USER: { ...optionalText('a role name', 'database user'), fixed: true },
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
} as const satisfies Record<string, Setting>;
