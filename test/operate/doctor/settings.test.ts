import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runChecks } from '../../../server/model/check.ts';
import { settingChecks, settingsOrError } from '../../../server/operate/doctor/examine.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';

/** What the doctor says that is not good, without a fix where there is none. */
async function found(environment: Record<string, string>, directory = temporaryDirectory()) {
  const settings = settingsOrError(environment, directory);
  return runChecks(settingChecks, { environment, directory, settings });
}

test.each([
  [{ PORT: '8081' }, [{ state: 'ok', finding: 'every setting is valid' }]],
  [
    { PORT: 'x', CORS_ORIGINS: '*' },
    [
      { state: 'problem', finding: 'PORT is "x"', fix: 'allowed: a whole number from 1 to 65535' },
      {
        finding: 'CORS_ORIGINS is "*"',
        fix: 'allowed: a comma list of origins (https://example.org); * is refused',
      },
    ],
  ],
  [{ SECRETS_KEY: 'geheim' }, [{ state: 'problem', finding: 'SECRETS_KEY is not usable' }]],
  [
    { FRONTEND_PUBLIC_AUTH_MODE: 'hosted' },
    [{ finding: 'FRONTEND_PUBLIC_AUTH_MODE is hosted but AUTH_MODE is local', fix: 'set both to the same mode' }],
  ],
])('the doctor names every invalid setting with what is allowed, and no secret: %j', async (environment, expected) => {
  const checks = await found(environment as Record<string, string>);
  expect(checks.filter(({ name }) => name === 'settings')).toMatchObject(expected);
});

describe('the doctor checks .env', () => {
  test.each([
    ['a secret that other users can read', 'ADMIN_PASSWORD=correct-horse-battery', 0o644, 'problem', 'chmod 600'],
    ['a secret for its owner alone', 'ADMIN_PASSWORD=correct-horse-battery', 0o600, 'ok', null],
    ['no secret, readable by other users', 'PORT=8081', 0o644, 'ok', null],
    ['a misspelt name', 'WORKRES=2', 0o600, 'advice', '.env.example'],
    ['a name that every object inherits', 'constructor=2', 0o600, 'advice', '.env.example'],
    ['a byte order mark before the first name', '\uFEFFPORT=8081', 0o600, 'ok', null],
    ['names of docker compose', 'COMPOSE_PROJECT_NAME=weir', 0o600, 'ok', null],
  ])('with %s', async (_, text, mode, state, fix) => {
    const directory = temporaryDirectory();
    writeFileSync(join(directory, '.env'), text);
    chmodSync(join(directory, '.env'), mode);
    const check = (await found({}, directory)).find(({ name }) => name === 'env_file');
    expect(check!.state).toBe(state);
    if (fix === null) expect(check!.fix).toBeNull();
    else expect(check!.fix).toContain(fix);
    expect(JSON.stringify(check)).not.toContain('correct-horse');
  });

  test('and the environment, for names that look like settings', async () => {
    const service = {
      WEIR_SERVICE_HOST: '10.0.0.1',
      WEIR_PORT: 'tcp://10.0.0.1:8080',
      WEIR_PORT_8080_TCP_ADDR: '10.0.0.1',
    };
    const unknown = async (environment: Record<string, string>) =>
      (await found(environment)).find(({ name }) => name === 'environment');
    expect(await unknown({ PATH: '/bin', PORT: '1', HOSTS: 'x', WEIR_SECRET: 'x', ...service })).toBe(undefined);
    const check = await unknown({ WORKRES: '2', WEIR_WORKERS: '2', WEIR_COLOUR: 'x', RETENTION_DAY: '3' });
    expect(check).toMatchObject({ state: 'advice', fix: expect.stringContaining('.env.example') });
    expect(check!.finding).toContain(
      'WORKRES (WORKERS?), WEIR_WORKERS (WORKERS?), WEIR_COLOUR, RETENTION_DAY (RETENTION_DAYS?)',
    );
  });

  test('and accepts its absence', async () => {
    expect(await found({})).toMatchObject([{ name: 'settings' }, { name: 'env_file', state: 'ok' }]);
  });
});
