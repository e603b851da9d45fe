/** Rolling restarts and resizing where the kernel moves connections that wait in a closing listener (tcp_migrate_req): no request fails. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { lackingForNamespaces, type Network, openNetwork } from '../helpers/namespaces.ts';
import { DRAINING, missing, startSender } from '../helpers/sender.ts';
import { until } from '../helpers/wait.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const RESTART_MS = 180_000;
/** More by hand: WEIR_TEST_RESTARTS=100. */
const RESTARTS = Number(process.env.WEIR_TEST_RESTARTS ?? 3);

const lacking = lackingForNamespaces();
if (lacking !== '')
  console.warn(`The test of rolling restarts with tcp_migrate_req is skipped: this machine lacks ${lacking}.`);

describe.skipIf(lacking !== '')('with tcp_migrate_req', () => {
  let network: Network;
  let weir: Weir;

  beforeAll(async () => {
    network = await openNetwork('one');
    const machine = network.machine('one');
    await machine.sysctl('net.ipv4.tcp_migrate_req', '1');
    weir = await startWeir({ DRAIN_SECONDS: 600, PROCESS_READY_SECONDS: 600 }, { machine });
  });
  afterAll(async () => {
    await weir?.stop();
    network?.close();
  });

  test(`${RESTARTS} restarts and resizes fail no request, on kept and on new connections`, {
    timeout: RESTART_MS * RESTARTS,
  }, async () => {
    const webhook = await weir.addWebhook();
    const senders = [true, false].map((keepAlive) =>
      startSender({ port: weir.port, ...webhook, ...DRAINING, keepAlive, lanes: 16 }),
    );
    const acceptMore = () => Promise.all(senders.map((sender) => sender.acceptMore(50)));
    await acceptMore();
    for (let i = 0; i < RESTARTS; i++) {
      const processes = await weir.servingPids();
      weir.signal('SIGHUP');
      await until(() => weir.events('restarted').length + weir.events('restart_failed').length > i);
      expect(weir.events('restart_failed')).toEqual([]);
      expect((await weir.servingPids()).filter((pid) => processes.includes(pid))).toEqual([]);
      await acceptMore();
    }
    for (const signal of ['SIGTTIN', 'SIGTTOU'] as const) {
      const wanted = (await weir.servingPids()).length + (signal === 'SIGTTIN' ? 1 : -1);
      weir.signal(signal);
      await until(async () => (await weir.metric('weir_processes')) === wanted);
      await until(async () => (await weir.servingPids()).length === wanted);
      await acceptMore();
    }
    await Promise.all(senders.map((sender) => sender.stop()));
    for (const sender of senders) {
      expect(sender.refusals).toEqual([]);
      expect(sender.losses).toEqual([]);
      expect(await missing(weir.database, sender.accepted)).toEqual([]);
    }
    expect(weir.events('restart_failed')).toEqual([]);
    // The totals have what processes answered while they drained.
    const accepted = senders.reduce((sum, sender) => sum + sender.accepted.size, 0);
    expect(await weir.metric('weir_events_committed_total')).toBe(accepted);
    if (RESTARTS > 3)
      console.log(
        `${RESTARTS} restarts: ${senders.map((sender) => sender.accepted.size).join(' and ')} requests, 0 failed`,
      );
  });
});
