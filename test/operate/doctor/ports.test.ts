import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { checkPorts } from '../../../server/operate/doctor/ports.ts';
import { MetricsPage } from '../../../server/operate/primary/metrics-page.ts';
import { freePort } from '../../helpers/ports.ts';
import { settingsOf } from '../../helpers/settings.ts';

describe('the doctor checks the ports', () => {
  test('that are free', async () => {
    const settings = settingsOf({ PORT: String(await freePort()), METRICS_PORT: String(await freePort()) });
    const { checks, running } = await checkPorts(settings);
    expect(checks.map(({ name, state }) => `${name} ${state}`)).toEqual(['port ok', 'metrics_port ok']);
    expect(running).toBe(false);
  });

  test('that another program uses', async () => {
    const port = await strangerPort();
    const { checks, running } = await checkPorts(
      settingsOf({ PORT: String(port), METRICS_PORT: String(await freePort()) }),
    );
    expect(checks[0]).toEqual({
      name: 'port',
      state: 'problem',
      finding: `PORT ${port} on 127.0.0.1 is in use by another program`,
      fix: 'stop it or set PORT',
    });
    expect(running).toBe(false);
  });

  test('METRICS_PORT of a Weir whose processes do not serve yet', async () => {
    const page = new MetricsPage({
      collect: async () => [],
      readFigures: async () => null,
      ownFamilies: async () => [],
      logLinesDropped: () => 0,
      onFailure: (error) => expect.fail(error.message),
    });
    const port = await freePort();
    await page.listen('127.0.0.1', port);
    onTestFinished(() => page.close());
    const { checks } = await checkPorts(settingsOf({ PORT: String(await freePort()), METRICS_PORT: String(port) }));
    expect(checks[1]).toMatchObject({ state: 'ok', finding: `${port} on 127.0.0.1 is used by Weir itself` });
  });

  test('that are equal', async () => {
    const { checks } = await checkPorts(settingsOf({ PORT: '9000', METRICS_PORT: '9000' }));
    expect(checks).toMatchObject([{ name: 'port', state: 'problem' }]);
  });

  test('at an address that this machine does not have', async () => {
    const { checks } = await checkPorts(
      settingsOf({ HOST: '192.0.2.1', PORT: String(await freePort()), METRICS_PORT: String(await freePort()) }),
    );
    expect(checks[0]).toMatchObject({ state: 'problem', fix: 'set HOST to an address of this machine' });
  });
});

/** A web server that answers everything with 200. */
function strangerPort(): Promise<number> {
  const server: Server = createServer((_, answer) => answer.end('hello'));
  onTestFinished(() => void server.closeAllConnections());
  onTestFinished(() => void server.close());
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
}
