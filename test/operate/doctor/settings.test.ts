import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { checkEnvFile, checkEnvironment, checkSettings } from '../../../server/operate/doctor/settings.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';

describe('the doctor checks the settings', () => {
  test('and accepts valid ones', () => {
    const { checks, settings } = checkSettings({ PORT: '8081' }, temporaryDirectory());
    expect(checks.map((check) => check.state)).toEqual(['ok']);
    expect(settings?.PORT).toBe(8081);
  });

  test('and names every invalid one with what is allowed', () => {
    const { checks, settings } = checkSettings({ PORT: 'x', CORS_ORIGINS: '*' }, temporaryDirectory());
    expect(settings).toBeNull();
    expect(checks).toEqual([
      { name: 'settings', state: 'problem', finding: 'PORT is "x"', fix: 'allowed: a whole number from 1 to 65535' },
      {
        name: 'settings',
        state: 'problem',
        finding: 'CORS_ORIGINS is "*"',
        fix: 'allowed: a comma list of origins (https://example.org); * is refused',
      },
    ]);
  });

  test('and hides the value of a secret', () => {
    const { checks } = checkSettings({ SECRETS_KEY: 'geheim' }, temporaryDirectory());
    expect(checks[0]).toMatchObject({ state: 'problem', finding: 'SECRETS_KEY is not usable' });
  });

  test('and separates a conflict between settings from its fix', () => {
    const { checks } = checkSettings({ FRONTEND_PUBLIC_AUTH_MODE: 'hosted' }, temporaryDirectory());
    expect(checks[0]).toMatchObject({
      finding: 'FRONTEND_PUBLIC_AUTH_MODE is hosted but AUTH_MODE is local',
      fix: 'set both to the same mode',
    });
  });
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
  ])('with %s', (_, text, mode, state, fix) => {
    const directory = temporaryDirectory();
    writeFileSync(join(directory, '.env'), text);
    chmodSync(join(directory, '.env'), mode);
    const [check] = checkEnvFile(directory);
    expect(check!.state).toBe(state);
    if (fix === null) expect(check!.fix).toBeNull();
    else expect(check!.fix).toContain(fix);
    expect(JSON.stringify(check)).not.toContain('correct-horse');
  });

  test('and the environment, for names that look like settings', () => {
    const service = {
      WEIR_SERVICE_HOST: '10.0.0.1',
      WEIR_PORT: 'tcp://10.0.0.1:8080',
      WEIR_PORT_8080_TCP_ADDR: '10.0.0.1',
    };
    expect(checkEnvironment({ PATH: '/bin', PORT: '1', HOSTS: 'x', WEIR_SECRET: 'x', ...service })).toEqual([]);
    const [check] = checkEnvironment({ WORKRES: '2', WEIR_WORKERS: '2', WEIR_COLOUR: 'x', RETENTION_DAY: '3' });
    expect(check).toMatchObject({ state: 'advice', fix: expect.stringContaining('.env.example') });
    expect(check!.finding).toContain(
      'WORKRES (WORKERS?), WEIR_WORKERS (WORKERS?), WEIR_COLOUR, RETENTION_DAY (RETENTION_DAYS?)',
    );
  });

  test('and accepts its absence', () => {
    expect(checkEnvFile(temporaryDirectory())[0]!.state).toBe('ok');
  });
});
