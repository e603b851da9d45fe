import { describe, expect, test } from 'vitest';
import { commands } from '../../../server/cli/commands.ts';
import { runCommands } from '../../helpers/command.ts';
import { freePort } from '../../helpers/ports.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';

describe('weir doctor', () => {
  test('prints one line a check with the fix below, and succeeds when there is only advice', async () => {
    const { code, out } = await doctor([], { WORKERS: '2' });
    expect(out).toMatch(/^✓ settings +every setting is valid$/m);
    expect(out).toMatch(/^! rate_limit +each of 2 processes counts separately.*\n +→ limit at a proxy as well/m);
    expect(out).toMatch(/^No problem, \d pieces? of advice\.$/m);
    expect(code).toBe(0);
  });

  test('fails with 1 when there is a problem', async () => {
    const { code, out, err } = await doctor([], { THREADS: '0' });
    expect(out).toMatch(/^✗ settings +THREADS is "0"\n +→ allowed: a whole number from 1 to 64$/m);
    expect(out).toMatch(/^1 problem/m);
    expect(err).toBe('');
    expect(code).toBe(1);
  });

  test('prints one JSON document', async () => {
    const { out } = await doctor(['--json'], {});
    const { checks } = JSON.parse(out) as { checks: Record<string, unknown>[] };
    for (const check of checks) expect(Object.keys(check)).toEqual(['name', 'state', 'finding', 'fix']);
    expect(checks.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['settings', 'data_dir', 'secrets_key', 'database', 'origins', 'port', 'tcp_migrate_req']),
    );
  });
});

async function doctor(options: string[], environment: Record<string, string>) {
  const ports = { PORT: String(await freePort()), METRICS_PORT: String(await freePort()) };
  // As root, the account of the embedded Postgres needs access, which a private directory denies.
  const given = { DATA_DIR: `/tmp/weir-not-made-${process.pid}`, ...ports, ...environment };
  return runCommands(commands, temporaryDirectory(), given, ['doctor', ...options]);
}
