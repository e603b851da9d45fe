/** Weir with a spool: the events of a cell that is away hold up no others, and kill -9 in the middle of a drain loses nothing. */
import { chmod, readdir } from 'node:fs/promises';
import { expect, onTestFinished, test } from 'vitest';
import { cutOff } from '../../helpers/cut-off.ts';
import { hold, rowsOf } from '../../helpers/hold.ts';
import { postgresPids } from '../../helpers/processes.ts';
import { missing } from '../../helpers/sender.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { until } from '../../helpers/wait.ts';
import { kill } from '../../helpers/weir.ts';
import type { CellInstallation } from './installation.ts';

export function spoolTests(installation: CellInstallation): void {
  test('a cell away, with a spool: no request is refused, and home is drained while the cell is away, through kill -9', async () => {
    const { servers, webhooks, startLoad, killWeir, startAgain } = installation;
    const spoolDir = temporaryDirectory();
    await chmod(spoolDir, 0o711);
    const spooling = { INGEST_SPOOL_DIR: spoolDir };
    await killWeir();
    await startAgain(spooling);
    const { conninfo } = installation.weir;
    const since = new Date().toISOString();
    const senders = await startLoad();

    kill((await postgresPids(servers[0]!.dataDir))!.postmaster, 'SIGKILL');
    await until(async () => (await installation.weir.metric('weir_spool_events')) >= 100);
    const { restore } = await cutOff(conninfo);
    await Promise.all([senders[0]!.acceptMore(300), senders[1]!.acceptMore(100), senders[2]!.acceptMore(100)]);
    expect(senders.flatMap(({ refusals }) => refusals)).toEqual([]);
    await Promise.all(senders.map((sender) => sender.stop()));
    await killWeir();
    await restore();

    // The drain of home is killed in the middle of a transaction.
    const release = await hold(conninfo, 'lock table events in share mode');
    onTestFinished(release);
    await startAgain(spooling);
    const waiting = `select from pg_stat_activity where application_name = 'weir-spool' and wait_event_type = 'Lock'`;
    await until(async () => (await rowsOf(conninfo, waiting)).length > 0);
    await killWeir();
    await release();
    await startAgain(spooling);
    const left = async () =>
      (await readdir(spoolDir, { recursive: true })).filter((name) => /\.(open|draining)$/.test(name));
    await until(async () => (await left()).every((name) => name.includes('-c1.')));
    expect(await missing(installation.weir.database, senders[0]!.accepted)).toEqual([]);
    expect((await left()).length).toBeGreaterThan(0);

    await installation.restartServer(0);
    await until(async () => (await left()).length === 0);
    const databases = [installation.weir.database, ...servers.map(({ database }) => database)];
    for (const [place, { accepted, losses }] of senders.entries()) {
      expect(await missing(databases[place]!, accepted)).toEqual([]);
      expect(losses).toEqual([]);
      const text = `select (count(*) - count(distinct body))::int as repeated from events where webhook_id = $1 and received_at >= $2`;
      const values = [webhooks[place]!.id, since];
      expect(await databases[place]!.query({ text, values })).toEqual([{ repeated: 0 }]);
    }
    const counts = senders.map(({ accepted }, cell) => `cell ${cell}: ${accepted.size}`);
    console.log(`answered 202: ${counts.join(', ')}; refused 0, lost 0`);
  });
}
