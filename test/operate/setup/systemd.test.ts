/** The systemd unit: its sandbox by its directives, and as rated by systemd if installed. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

/** Exposure by systemd-analyze (0 to 10). Releases of systemd differ slightly. */
const EXPOSURE_MAX = 2;

const guide = readFileSync(new URL('../../../views/docs/installing.md', import.meta.url), 'utf8');
const path = fileURLToPath(new URL('../../../containers/weir.service', import.meta.url));
const unit = readFileSync(path, 'utf8');
const service = unit.slice(unit.indexOf('[Service]'), unit.indexOf('[Install]'));

/** All values of a directive, in order. */
function valuesOf(directive: string): string[] {
  return [...service.matchAll(new RegExp(`^${directive}=(.*)$`, 'gm'))].map(([, value]) => value!);
}

describe('the systemd unit', () => {
  test('reports by systemd-notify, as a user that can gain no privileges', () => {
    // systemd-notify reports as a process of its own. What else the sandbox forbids is rated below.
    for (const [directive, value] of [
      ['Type', 'notify'],
      ['NotifyAccess', 'all'],
      ['User', 'weir'],
      ['NoNewPrivileges', 'true'],
      ['CapabilityBoundingSet', ''],
      ['StateDirectoryMode', '0700'],
      // A core file would hold secrets.
      ['LimitCORE', '0'],
    ] as const)
      expect(valuesOf(directive), directive).toEqual([value]);
  });

  test('finds Node in /usr/bin and in /usr/local/bin', () => {
    expect(valuesOf('ExecStart')).toEqual(['/usr/bin/env node dist/server/cli/weir.js start']);
  });

  test('is reloaded by the command that waits until every process is new', () => {
    expect(valuesOf('ExecReload')).toEqual(['/usr/bin/env node dist/server/cli/weir.js reload']);
  });

  test('is started again however often it failed', () => {
    expect(valuesOf('Restart')).toEqual(['on-failure']);
    expect(Number(valuesOf('RestartSec')[0])).toBeGreaterThan(0);
    expect(unit.slice(0, unit.indexOf('[Service]'))).toContain('\nStartLimitIntervalSec=0\n');
  });

  test('makes DATA_DIR its writable directory', () => {
    // In .env, which commands read too: with another DATA_DIR, they would start another embedded Postgres.
    expect(valuesOf('Environment')).toEqual([]);
    expect(guide).toContain(`echo DATA_DIR=/var/lib/${valuesOf('StateDirectory')[0]} >> .env`);
  });
});

const version = spawnSync('systemd-analyze', ['--version'], { encoding: 'utf8' }).stdout?.match(/^systemd (\d+)/)?.[1];

describe.runIf(version)(version === undefined ? 'systemd (skipped: no systemd-analyze)' : 'systemd', () => {
  const analyze = (...args: string[]) => spawnSync('systemd-analyze', [...args, path], { encoding: 'utf8' });

  test('understands every line of the unit', () => {
    const { status, stderr } = analyze('verify');
    expect(status).toBe(0);
    expect(stderr).not.toContain('weir.service');
  });

  test('has the security exposure stated in the guide', () => {
    const { stdout } = analyze('security', '--offline=true');
    const exposure = Number(stdout.match(/Overall exposure level .*: ([\d.]+)/)?.[1]);
    expect(exposure).toBeLessThan(EXPOSURE_MAX);
    const [, release, stated] = guide.match(/of systemd (\d+) reports an exposure of\s+([\d.]+)/)!;
    if (version === release) expect(exposure).toBe(Number(stated));
  });
});
