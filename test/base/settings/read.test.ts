import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadSettings, readSettings } from '../../../server/base/settings/read.ts';
import { SettingsError } from '../../../server/model/fault.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';

const empty = temporaryDirectory();
const directory = temporaryDirectory();

const KEY = Buffer.alloc(32, 9).toString('base64');

/** Errors of these settings, one sentence each. */
function problemsOf(environment: Record<string, string>): string[] {
  try {
    readSettings(environment, empty);
    return [];
  } catch (error) {
    if (error instanceof SettingsError) return error.message.split('\n');
    throw error;
  }
}

describe('a secret in a file', () => {
  const write = (name: string, text: string) => {
    const path = join(directory, name);
    writeFileSync(path, text);
    return path;
  };

  test.each([
    ['as it is', KEY],
    ['with a line end', `${KEY}\n`],
    ['with the line end of Windows and a byte order mark', `\uFEFF${KEY}\r\n`],
  ])('is read %s', (_how, text) => {
    const configuration = loadSettings({ SECRETS_KEY: '', SECRETS_KEY_FILE: write('key', text) }, empty);
    expect(configuration.settings.SECRETS_KEY).toBe(KEY);
    expect(configuration.unknown).toEqual([]);
  });

  test('has a path relative to the directory, in the environment or in .env', () => {
    write('url', 'redis://redis:6379\n');
    write('.env', 'RATE_LIMIT_BACKEND=shared\nRATE_LIMIT_SHARED_URL_FILE=url\n');
    expect(readSettings({}, directory).sharedStoreUrls).toEqual(['redis://redis:6379']);
    rmSync(join(directory, '.env'));
  });

  test.each([
    [
      'both names',
      () => ({ SECRETS_KEY: KEY, SECRETS_KEY_FILE: write('key', KEY) }),
      'SECRETS_KEY and SECRETS_KEY_FILE are both set',
    ],
    ['a missing file', () => ({ ALERT_SECRET_FILE: '/nonexistent/a' }), 'ALERT_SECRET_FILE cannot be read: ENOENT'],
    [
      'an empty file',
      () => ({ ADMIN_PASSWORD_FILE: write('nothing', '\n') }),
      'ADMIN_PASSWORD_FILE names an empty file',
    ],
    ['an invalid secret', () => ({ SECRETS_KEY_FILE: write('short', 'AAAA') }), 'SECRETS_KEY is not usable'],
  ])('is refused with %s', (_what, environment, problem) => {
    expect(problemsOf(environment())).toEqual([expect.stringContaining(problem)]);
  });
});

test('without settings the defaults of the contract apply', () => {
  expect(readSettings({}, empty)).toMatchObject({
    HOST: '127.0.0.1',
    PORT: 8080,
    PUBLIC_URL: 'http://127.0.0.1:8080',
    FRONTEND_PUBLIC_API_URL: 'http://127.0.0.1:8080',
    THREADS: 1,
    database: { kind: 'embedded' },
    DB_POOL_MAX: 4,
    AUTH_MODE: 'local',
    FRONTEND_PUBLIC_AUTH_MODE: 'local',
    CORS_ORIGINS: [],
    REQUEST_LOG_SLOW_MS: 1000,
    RATE_LIMIT_BACKEND: 'memory',
    sharedStoreUrls: [],
    RATE_LIMIT_INGEST_MAX: 60,
    RATE_LIMIT_INGEST_WINDOW_SECONDS: 60,
    RATE_LIMIT_AGENT_AUTH_MAX: 20,
    RATE_LIMIT_AGENT_AUTH_WINDOW_SECONDS: 60,
    RATE_LIMIT_SIGN_IN_MAX: 60,
    RATE_LIMIT_SIGN_IN_WINDOW_SECONDS: 60,
    RATE_LIMIT_ANONYMOUS_MAX: 600,
    RATE_LIMIT_ANONYMOUS_WINDOW_SECONDS: 60,
    CLIENT_REQUESTS_MAX: 1_024,
    CLIENT_BODY_BYTES_HELD_MAX: 16_777_216,
    CLIENT_UNREAD_BYTES_MAX: 33_554_432,
    USER_STREAMS_MAX: 20,
    WEBHOOK_MAX_PAYLOAD_BYTES: 1_048_576,
    BATCH_LINES_MAX: 1000,
    TRUSTED_PROXIES: [],
    DELIVERY_MAX_ATTEMPTS: 10,
    RETENTION_DAYS: 30,
    DRAIN_DELAY_SECONDS: 0,
    DRAIN_SECONDS: 15,
    METRICS_HOST: '127.0.0.1',
    METRICS_PORT: 9464,
    LOG_LEVEL: 'info',
  });
});

describe('a variable that Kubernetes sets for a Service', () => {
  test('of the name of a setting is ignored and reported', () => {
    const environment = { POSTGRES_PORT: 'tcp://10.0.0.1:5432', METRICS_PORT: 'tcp://10.0.0.2:80', HOST: '::1' };
    const { settings, ignored, given } = loadSettings(environment, empty);
    expect(ignored).toEqual(['POSTGRES_PORT', 'METRICS_PORT']);
    expect(settings).toMatchObject({ METRICS_PORT: 9464, HOST: '::1', database: { kind: 'embedded' } });
    expect(given.values).toEqual({ HOST: '::1' });
  });

  test('does not hide that of .env', () => {
    const folder = temporaryDirectory();
    writeFileSync(join(folder, '.env'), 'METRICS_PORT=9000\nPORT=8082\nOTHER=1\n');
    const { settings, fromFile } = loadSettings({ METRICS_PORT: 'tcp://10.0.0.2:80', PORT: '8081' }, folder);
    expect([settings.METRICS_PORT, fromFile]).toEqual([9000, ['METRICS_PORT']]);
  });
});

describe('an invalid setting is named with what is allowed', () => {
  test.each([
    ['PORT', '0', '1 to 65535'],
    ['PORT', '65536', '1 to 65535'],
    ['PORT', '80a', '1 to 65535'],
    ['PORT', ' 80', '1 to 65535'],
    ['PORT', '1e3', '1 to 65535'],
    ['WORKERS', '0', '1 to 1024'],
    ['THREADS', 'two', '1 to 64'],
    ['ADMIN_EMAIL', 'ada', 'an email address'],
    ['ALERT_PRIVATE_NETWORKS', 'yes', 'refuse or allow'],
    ['PUBLIC_URL', 'weir.example', 'origin without a path'],
    ['PUBLIC_URL', 'https://weir.example/', 'origin without a path'],
    ['PUBLIC_URL', 'javascript:alert(1)', 'origin without a path'],
    ['FRONTEND_PUBLIC_API_URL', '/api', 'origin without a path'],
    ['CORS_ORIGINS', '*', '* is refused'],
    ['CORS_ORIGINS', 'https://*.example', '* is refused'],
    ['CORS_ORIGINS', 'a.example', '* is refused'],
    ['AUTH_MODE', 'Local', 'local or hosted'],
    ['RATE_LIMIT_BACKEND', 'redis', 'memory or shared'],
    ['RATE_LIMIT_INGEST_MAX', '0', 'whole number'],
    ['WEBHOOK_MAX_PAYLOAD_BYTES', '1MB', 'whole number'],
    ['TRUSTED_PROXIES', 'proxy.example', 'CIDR'],
    ['TRUSTED_PROXIES', '10.0.0.0/33', 'CIDR'],
    ['TRUSTED_PROXIES', '127.0.0.1, *', 'CIDR'],
    ['LOG_LEVEL', 'verbose', 'a pino level'],
    ['HOST', ' 127.0.0.1', 'an IP address'],
  ])('%s=%j', (name, value, allowed) => {
    const [problem, ...more] = problemsOf({ [name]: value });
    expect(more).toEqual([]);
    expect(problem).toMatch(new RegExp(`^${name} is `));
    expect(problem).toContain(JSON.stringify(value));
    expect(problem).toContain(allowed);
  });

  test('and so are all others together', () => {
    const problems = problemsOf({ PORT: '0', LOG_LEVEL: 'loud', THREADS: '99' });
    expect(problems.map((problem) => problem.split(' ')[0])).toEqual(['PORT', 'THREADS', 'LOG_LEVEL']);
  });

  test.each([
    ['SECRETS_KEY', 'hush-too-short'],
    ['SECRETS_KEY', `${KEY.slice(0, -2)}hush`],
    ['SECRETS_KEY_PREVIOUS', 'hush'],
    ['DATABASE_URL', ' postgres://weir:hush@db/weir'],
    ['RATE_LIMIT_SHARED_URL', 'http://:hush@redis:6379'],
    ['RQ_SHARED_URL', 'redis://:hush@redis:6379, hush'],
    ['RATE_LIMIT_SHARED_URL', 'redis://:hush%zz@redis:6379'],
    ['RATE_LIMIT_SHARED_URL', 'redis://:hush@redis:6379/first'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'api-key=hush%ff'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'api-key=hush%0a'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'api-key=hush%E2%82%AC'],
    ['POSTGRES_PASSWORD', ' hush '],
    ['OIDC_CLIENT_SECRET', 'hush '],
    ['ADMIN_PASSWORD', ' hush'],
    ['ALERT_URL', 'receiver.example/hush'],
    ['ALERT_URL', 'ftp://receiver.example/hush'],
    ['ALERT_URL', 'https://ada:hush@receiver.example/'],
    ['ALERT_URL', 'https://receiver.example/#hush'],
    ['ALERT_SECRET', 'hush'],
    ['ALERT_SECRET', `whsec_${Buffer.from('hush'.repeat(5)).toString('base64')}`],
    ['ALERT_SECRET', `whsec_${Buffer.from('hush'.repeat(17)).toString('base64')}`],
  ])('but the value of a secret is hidden: %s', (name, value) => {
    const [problem] = problemsOf({ [name]: value });
    expect(problem).toMatch(new RegExp(`^${name} is not usable; allowed: `));
    expect(problem).not.toContain('hush');
  });
});

test('the refusal of a server without a key names that of the embedded one, without which its secrets are lost', () => {
  const folder = temporaryDirectory();
  const refuse = () => readSettings({ DATABASE_URL: 'postgres://db/weir', DATA_DIR: folder }, empty);
  expect(refuse).toThrow(/embedded one; generate one with: openssl rand -base64 32$/);
  writeFileSync(join(folder, 'secrets.key'), KEY);
  expect(refuse).toThrow(`set it to the key in ${folder}/secrets.key; for a new installation, generate one`);
});

describe('conflicting settings refuse to start', () => {
  const server = { POSTGRES_USER: 'weir', POSTGRES_DB: 'events', SECRETS_KEY: KEY };
  test.each<[RegExp, Record<string, string>]>([
    [
      /FRONTEND_PUBLIC_AUTH_MODE is hosted but AUTH_MODE is local/,
      { AUTH_MODE: 'local', FRONTEND_PUBLIC_AUTH_MODE: 'hosted' },
    ],
    [
      /OAUTH_ENABLED is true but PUBLIC_URL is an http address that other machines reach/,
      { OAUTH_ENABLED: 'true', PUBLIC_URL: 'http://weir.example.org' },
    ],
    [/RATE_LIMIT_SHARED_URL and RQ_SHARED_URL are both unset/, { RATE_LIMIT_BACKEND: 'shared' }],
    [/PORT and METRICS_PORT are both 9000; set METRICS_PORT/, { PORT: '9000', METRICS_PORT: '9000' }],
    [/PORT and METRICS_PORT are both 9464/, { PORT: '9464', HOST: '0.0.0.0' }],
    [/PORT and METRICS_PORT are both 9464/, { PORT: '9464', HOST: '192.0.2.1', METRICS_HOST: '::' }],
    [/SECRETS_KEY is unset/, { DATABASE_URL: 'postgres://db/weir' }],
    [/POSTGRES_PASSWORD is unset/, server],
    [/POSTGRES_PASSWORD has fewer than 12/, { ...server, POSTGRES_PASSWORD: 'elevenchars' }],
    [/POSTGRES_PASSWORD equals/, { ...server, POSTGRES_USER: 'weir-service', POSTGRES_PASSWORD: 'weir-service' }],
    [/POSTGRES_PASSWORD equals/, { ...server, POSTGRES_DB: 'events-of-weir', POSTGRES_PASSWORD: 'events-of-weir' }],
    [/POSTGRES_PASSWORD contains the word/, { ...server, POSTGRES_PASSWORD: 'my-PostGres-2026' }],
    [/POSTGRES_PASSWORD contains the word/, { ...server, POSTGRES_PASSWORD: 'Password12345' }],
    [/ADMIN_PASSWORD is not; set both/, { ADMIN_EMAIL: 'ada@example.org' }],
    [/ADMIN_EMAIL is not; set both/, { ADMIN_PASSWORD: 'correct horse' }],
    [
      /ADMIN_PASSWORD is not usable\. Use 12 to 200 characters\.$/,
      { ADMIN_EMAIL: 'ada@example.org', ADMIN_PASSWORD: 'elevenchars' },
    ],
    [
      /ADMIN_PASSWORD is not usable\. The password must not be the email address or a part of it\.$/,
      { ADMIN_EMAIL: 'ada@example.org', ADMIN_PASSWORD: 'Ada@Example.org' },
    ],
    [
      /CLIENT_BODY_BYTES_HELD_MAX is less/,
      { WEBHOOK_MAX_PAYLOAD_BYTES: '20000000', CLIENT_BODY_BYTES_HELD_MAX: '100000' },
    ],
  ])('%s', (problem, environment) => {
    const problems = problemsOf(environment);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(problem);
    const { POSTGRES_PASSWORD, ADMIN_PASSWORD } = environment;
    for (const password of [POSTGRES_PASSWORD, ADMIN_PASSWORD])
      if (password !== undefined) expect(problems[0]).not.toContain(password);
  });

  test('hosted mode without a provider names all three settings', () => {
    const problems = problemsOf({ AUTH_MODE: 'hosted' });
    expect(problems.map((problem) => problem.split(' ')[0])).toEqual([
      'OIDC_ISSUER',
      'OIDC_CLIENT_ID',
      'OIDC_CLIENT_SECRET',
    ]);
  });
});

describe('the issuer', () => {
  test.each([
    'https://id.example',
    'https://id.example/realms/acme',
    'http://127.0.0.1:8081',
    'http://[::1]:8081/realms/acme',
    'http://localhost:8081',
  ])('%s is accepted', (OIDC_ISSUER) => {
    expect(readSettings({ OIDC_ISSUER }, empty)).toMatchObject({ OIDC_ISSUER });
  });

  test.each([
    'http://id.example',
    'http://127.0.0.1.id.example',
    'http://localhost.id.example',
    'http://10.0.0.1',
    'http://0.0.0.0:8081',
    'ftp://id.example',
    'id.example',
    'https://user:pass@id.example',
    'https://id.example/?tenant=1',
    'https://id.example/#top',
    'https://id.example/.well-known/openid-configuration',
  ])('%s is refused with what is allowed', (OIDC_ISSUER) => {
    expect(problemsOf({ OIDC_ISSUER })).toEqual([
      `OIDC_ISSUER is ${JSON.stringify(OIDC_ISSUER)}; allowed: an https address without a query, exactly as the provider states it (http only for a loopback address)`,
    ]);
  });
});

describe('derived settings', () => {
  test.each([
    [{ PORT: '9000' }, { PUBLIC_URL: 'http://127.0.0.1:9000' }],
    [{ HOST: '0.0.0.0' }, { PUBLIC_URL: 'http://127.0.0.1:8080' }],
    [{ HOST: '::' }, { PUBLIC_URL: 'http://127.0.0.1:8080' }],
    [{ HOST: '::1' }, { PUBLIC_URL: 'http://[::1]:8080' }],
    [
      { HOST: '192.0.2.1', PORT: '9464' },
      { METRICS_HOST: '127.0.0.1', METRICS_PORT: 9464 },
    ],
    [{ PUBLIC_URL: 'https://weir.example' }, { FRONTEND_PUBLIC_API_URL: 'https://weir.example' }],
    [{ AUTH_MODE: 'local', PORT: '' }, { PORT: 8080 }],
    [
      { CORS_ORIGINS: ' https://a.example ,, http://b.example:8080,' },
      { CORS_ORIGINS: ['https://a.example', 'http://b.example:8080'] },
    ],
    [{ RATE_LIMIT_BACKEND: 'shared', RQ_SHARED_URL: 'redis://q:6379' }, { sharedStoreUrls: ['redis://q:6379'] }],
    [
      {
        RATE_LIMIT_BACKEND: 'shared',
        RQ_SHARED_URL: 'redis://q:6379',
        RATE_LIMIT_SHARED_URL: 'redis://a:1,rediss://b:2',
      },
      { sharedStoreUrls: ['redis://a:1', 'rediss://b:2'] },
    ],
    [
      { RATE_LIMIT_BACKEND: 'shared', RQ_SHARED_URL: 'redis://u%40x:p%2F@q:6379/15' },
      { sharedStoreUrls: ['redis://u%40x:p%2F@q:6379/15'] },
    ],
    [{ RQ_SHARED_URL: 'redis://q:6379' }, { sharedStoreUrls: [] }],
    [
      { POSTGRES_DB: 'events', POSTGRES_PASSWORD: `it's a "long" one\\`, SECRETS_KEY: KEY },
      { database: { kind: 'server', conninfo: `host='localhost' dbname='events' password='it\\'s a "long" one\\\\'` } },
    ],
    [
      { DATABASE_URL: 'postgres://db/weir', POSTGRES_DB: 'ignored', SECRETS_KEY: KEY },
      { database: { kind: 'server', conninfo: 'postgres://db/weir' } },
    ],
  ])('%j gives %j', (environment, expected) => {
    expect(readSettings(environment, empty)).toMatchObject(expected);
  });

  test('from .env with a byte order mark, its first line too', () => {
    const folder = mkdtempSync(join(directory, 'mark-'));
    writeFileSync(join(folder, '.env'), '\uFEFFPORT=1111\r\nTHREADS=2\r\n');
    expect(readSettings({}, folder)).toMatchObject({ PORT: 1111, THREADS: 2 });
  });

  test('and not from names that only look like settings: those are reported', () => {
    const folder = mkdtempSync(join(directory, 'unknown-'));
    writeFileSync(join(folder, '.env'), 'WORKRES=9\n');
    const { settings, unknown } = loadSettings({ WORKERS: '2', WEIR_THREADS: '1', HOME: '/' }, folder);
    expect(settings.WORKERS).toBe(2);
    expect(unknown).toEqual([
      { name: 'WORKRES', meant: 'WORKERS' },
      { name: 'WEIR_THREADS', meant: 'THREADS' },
    ]);
  });

  test('from .env, where the environment is unset or empty', () => {
    writeFileSync(join(directory, '.env'), 'PORT=1111\nTHREADS="2"\n# WORKERS=9\nDB_POOL_MAX=7\nHOST=\n');
    expect(readSettings({ PORT: '2222', DB_POOL_MAX: '' }, directory)).toMatchObject({
      PORT: 2222,
      THREADS: 2,
      DB_POOL_MAX: 7,
      HOST: '127.0.0.1',
    });
  });

  test('with DATA_DIR below the working directory', () => {
    expect(readSettings({ DATA_DIR: 'here' }, directory).DATA_DIR).toBe(join(directory, 'here'));
    expect(readSettings({ DATA_DIR: '/elsewhere' }, directory).DATA_DIR).toBe('/elsewhere');
  });
});
