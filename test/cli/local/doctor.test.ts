import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { runCommand } from '../../../server/cli/command/run-command.ts';
import { commands } from '../../../server/cli/commands.ts';
import { freePort } from '../../helpers/ports.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';

describe('weir doctor', () => {
  test('prints one line a check with the fix below, and succeeds when there is only advice', async () => {
    const { code, stdout } = await doctor([], { WORKERS: '2' });
    expect(stdout).toMatch(/^✓ settings +every setting is valid$/m);
    expect(stdout).toMatch(/^! rate_limit +each of 2 processes counts separately.*\n +→ limit at a proxy as well/m);
    expect(stdout).toMatch(/^No problem, \d pieces? of advice\.$/m);
    expect(code).toBe(0);
  });

  test('fails with 1 when there is a problem', async () => {
    const { code, stdout, stderr } = await doctor([], { THREADS: '0' });
    expect(stdout).toMatch(/^✗ settings +THREADS is "0"\n +→ allowed: a whole number from 1 to 64$/m);
    expect(stdout).toMatch(/^1 problem/m);
    expect(stderr).toBe('');
    expect(code).toBe(1);
  });

  test('prints one JSON document', async () => {
    const { stdout } = await doctor(['--json'], {});
    const { checks } = JSON.parse(stdout) as { checks: Record<string, unknown>[] };
    for (const check of checks) expect(Object.keys(check)).toEqual(['name', 'state', 'finding', 'fix']);
    expect(checks.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['settings', 'data_dir', 'secrets_key', 'database', 'origins', 'port', 'tcp_migrate_req']),
    );
  });
});

async function doctor(options: string[], environment: Record<string, string>) {
  const ports = { PORT: String(await freePort()), METRICS_PORT: String(await freePort()) };
  return run(['doctor', ...options], { ...ports, ...environment });
}

async function run(args: string[], environment: Record<string, string>) {
  const directory = temporaryDirectory();
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  // As root, the account of the embedded Postgres needs access, which a private directory denies.
  const DATA_DIR = `/tmp/weir-not-made-${process.pid}`;
  const io = { environment: { DATA_DIR, ...environment }, directory, stdin, stdout, stderr };
  const code = await runCommand(commands, args, io);
  stdout.end();
  stderr.end();
  return { code, stdout: await text(stdout), stderr: await text(stderr) };
}
