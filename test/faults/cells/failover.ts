/** A cell on Postgres with Patroni loses its leader: only its webhooks are refused until the standby is promoted. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../../server/store/connect/pool.ts';
import { lackingForPatroni, startPatroni } from '../../helpers/patroni.ts';
import { missing, startSender } from '../../helpers/sender.ts';
import { ofTest } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import type { CellInstallation } from './installation.ts';

const KEY_HEADER = 'x-delivery';
const lacking = lackingForPatroni();
const note = lacking === '' ? '' : ` (skipped: this machine lacks ${lacking})`;

export function failoverTests(installation: CellInstallation): void {
  describe.skipIf(lacking !== '')(`a cell on Patroni${note}`, () => {
    test('whose leader is killed: only its webhooks get 503 until the standby is promoted', async () => {
      await installation.killWeir();
      await installation.startAgain();
      const { weir, startLoad, addCell, addWebhook } = installation;
      const patroni = await ofTest(startPatroni());
      const number = await addCell(patroni.conninfo);
      // Stored by COPY and by a statement.
      const webhooks = [await addWebhook(number), await addWebhook(number, '--dedupe-header', KEY_HEADER)];
      const others = await startLoad();
      const senders = webhooks.map((webhook) =>
        startSender({ ...webhook, port: weir.port, lanes: 8, perSecondMax: 100, keyHeader: KEY_HEADER }),
      );
      onTestFinished(async () => {
        await Promise.all(senders.map((sender) => sender.stop()));
      });
      await Promise.all(senders.map((sender) => sender.acceptMore(200)));
      const { leader, standby } = await patroni.settled();
      const processes = await weir.servingPids();

      await leader.kill();
      const killedMs = performance.now();
      await Promise.all(senders.map(({ refusals }) => until(() => refusals.length > 0)));
      await Promise.all(others.map((sender) => sender.acceptMore(300)));
      await Promise.all(senders.map((sender) => sender.acceptMore(1)));
      const resumedMs = performance.now();
      await Promise.all(senders.map((sender) => sender.acceptMore(200)));
      leader.start();
      expect(await patroni.settled()).toMatchObject({ leader: { name: standby.name }, standby: { name: leader.name } });
      await Promise.all([...senders, ...others].map((sender) => sender.acceptMore(100)));

      await Promise.all([...senders, ...others].map((sender) => sender.stop()));
      const pool = { connectionsMax: 1, applicationName: 'weir-test', onError: () => {} };
      const cell = openDatabase(patroni.conninfo, pool);
      onTestFinished(() => cell.close());
      for (const { accepted } of senders) expect(await missing(cell, accepted)).toEqual([]);
      expect(others.flatMap(({ refusals }) => refusals)).toEqual([]);
      expect([...senders, ...others].flatMap(({ losses }) => losses)).toEqual([]);
      const refusals = senders.flatMap((sender) => sender.refusals);
      expect(new Set(refusals.map(({ status, code }) => `${status} ${code}`))).toEqual(
        new Set(['503 database_unavailable']),
      );
      expect(await weir.servingPids()).toEqual(processes);
      const accepted = (some: typeof senders) => some.reduce((sum, sender) => sum + sender.accepted.size, 0);
      console.log(
        `the cell stored again ${((resumedMs - killedMs) / 1000).toFixed(1)} s after the kill; its webhooks: 202 ${accepted(senders)}, ` +
          `503 ${refusals.length}, lost 0; the others: 202 ${accepted(others)}, 503 0, lost 0`,
      );
    });
  });
}
