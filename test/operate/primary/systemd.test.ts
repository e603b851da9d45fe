/** What systemd hears, received by a socket like its own. */
import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Log } from '../../../server/base/telemetry/log.ts';
import { ServiceReports, takeServiceEnvironment } from '../../../server/operate/primary/systemd.ts';

const RECEIVER = `
import socket, sys
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind(sys.argv[1])
print("bound", flush=True)
while True: print(receiver.recv(4096).decode(), flush=True)`;

import { temporaryDirectory } from '../../helpers/settings.ts';
import { gate } from '../../helpers/wait.ts';

const noLog = (() => {}) as unknown as Log;
const isInstalled = spawnSync('systemd-notify', ['--version']).status === 0;

/** A socket and what arrives there, without the barriers by which systemd-notify waits for its messages to be read. */
async function receive() {
  const folder = temporaryDirectory();
  const path = join(folder, 'socket');
  const receiver = spawn('python3', ['-c', RECEIVER, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void receiver.kill('SIGKILL'));
  const lines = createInterface({ input: receiver.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string> => {
    const { value } = await lines.next();
    return value === 'BARRIER=1' ? next() : value;
  };
  expect(await next()).toBe('bound');
  return { path, next };
}

describe.runIf(isInstalled)(isInstalled ? 'systemd' : 'systemd (skipped: no systemd-notify)', () => {
  test('hears of the start, of a reload and of the stop, in order', async () => {
    const { path, next } = await receive();
    const service = new ServiceReports({ NOTIFY_SOCKET: path }, noLog);
    service.ready();
    service.reloading();
    service.ready();
    service.stopping();
    const received = [await next(), await next(), await next(), await next()];
    expect(received).toEqual(['READY=1', 'RELOADING=1', 'READY=1', 'STOPPING=1']);
  });

  test('gets signs of life from the start on', async () => {
    const { path, next } = await receive();
    const service = new ServiceReports({ NOTIFY_SOCKET: path, WATCHDOG_USEC: '20000' }, noLog);
    service.ready();
    expect([await next(), await next()]).toEqual(['READY=1', 'WATCHDOG=1']);
    service.stopping();
  });
});

test('a failure is logged once', async () => {
  const lines: unknown[] = [];
  const { opened: promise, open: resolve } = gate();
  const log = ((event: string, fields: object) => {
    lines.push([event, fields]);
    resolve();
  }) as unknown as Log;
  const service = new ServiceReports({ NOTIFY_SOCKET: '/nowhere/socket' }, log);
  service.ready();
  service.stopping();
  await promise;
  expect(lines).toEqual([['service_report_failed', { message: 'READY=1', reason: expect.any(String) }]]);
});

test('children do not get the variables of systemd', () => {
  const environment = { NOTIFY_SOCKET: '/run/x', WATCHDOG_USEC: '1', WATCHDOG_PID: '2', HOST: '::1' };
  expect(takeServiceEnvironment(environment)).toEqual({ NOTIFY_SOCKET: '/run/x', WATCHDOG_USEC: '1' });
  expect(environment).toEqual({ HOST: '::1' });
});
