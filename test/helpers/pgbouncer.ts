/** A real PgBouncer in front of a database of the run's Postgres. */
import { spawn } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { freePort } from './ports.ts';
import type { FreshDatabase } from './postgres.ts';
import { relayTo } from './relay.ts';
import { until } from './wait.ts';

/** Runs until the end of the test. Resolves with the URL of the database through it. It has no setting but what it needs to run, and `settings`. */
export async function startPgBouncer(
  database: Pick<FreshDatabase, 'conninfo' | 'name'>,
  settings: Record<string, string | number>,
): Promise<string> {
  // Another account than that of Postgres, whose socket is its own.
  const relay = await relayTo(database);
  const { port: serverPort, username } = new URL(relay.url);
  const directory = await mkdtemp(join(tmpdir(), 'weir-pgb-'));
  await chmod(directory, 0o755);
  const port = await freePort();
  const file = join(directory, 'pgbouncer.ini');
  const given = { listen_addr: '127.0.0.1', listen_port: port, unix_socket_dir: '', auth_type: 'any', ...settings };
  await writeFile(
    file,
    `[databases]\n${database.name} = host=127.0.0.1 port=${serverPort} user=${username}\n[pgbouncer]\n${Object.entries(
      given,
    )
      .map(([name, value]) => `${name} = ${value}\n`)
      .join('')}`,
  );
  const account = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const child = spawn('pgbouncer', [...account, file], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    said += text;
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
    relay.close();
    await rm(directory, { recursive: true });
  });
  await until(async () => {
    if (child.exitCode !== null) throw new Error(said);
    return new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(socket.destroy() !== null));
      socket.on('error', () => resolve(false));
    });
  });
  return `postgres://weir@127.0.0.1:${port}/${database.name}?sslmode=disable`;
}
