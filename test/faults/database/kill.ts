/** kill -9 under load: no event that was answered 202 is lost, and the service recovers automatically. */
import { expect, test } from 'vitest';
import type { Chain } from '../../helpers/chain.ts';
import { isListening, look, postgresPids } from '../../helpers/processes.ts';
import { missing } from '../../helpers/sender.ts';
import { until } from '../../helpers/wait.ts';
import { kill, readiness } from '../../helpers/weir.ts';

const isGone = async (pid: number) => (await look(pid)) === null;

export function killTests(chain: Chain): void {
  test('a killed process is replaced, and the others continue to serve', async () => {
    const { weir } = chain;
    const restarts = await weir.metric('weir_process_restarts_total');
    const sender = await chain.startLoad();
    const before = await weir.servingPids();
    kill(before[0]!, 'SIGKILL');
    const after = await until(async () => {
      const pids = await weir.servingPids();
      return pids.length === 2 && !pids.includes(before[0]!) && pids;
    });
    expect(after).toContain(before[1]);
    await until(() => chain.events('process_up').some((line) => line.process === after[1]));
    await sender.acceptMore(300);
    await sender.stop();
    expect(sender.refusals).toEqual([]);
    expect(chain.events('process_exited')).toMatchObject([{ process: before[0], reason: 'SIGKILL' }]);
    expect(await weir.metric('weir_process_restarts_total')).toBe(restarts + 1);
    expect(await missing(weir.database, sender.accepted)).toEqual([]);
  });

  test('a Postgres session during a COPY', async () => {
    const { database } = chain.weir;
    const sender = await chain.startLoad({ perSecondMax: Infinity });
    const text = `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'weir-copy' and state = 'active'`;
    for (let cut = 0; cut < 12; ) {
      const rows = await database.query({ text });
      cut += rows.length;
      if (rows.length > 0) await sender.acceptMore(50);
    }
    await sender.stop();
    expect(await missing(database, sender.accepted)).toEqual([]);
    expect(new Set(sender.refusals.map(({ code }) => code))).toEqual(new Set(['database_unavailable']));
    expect(sender.losses).toEqual([]);
  });

  test('Postgres itself', async () => {
    const { weir } = chain;
    const sender = await chain.startLoad();
    const { postmaster } = (await postgresPids(weir.dataDir))!;
    kill(postmaster, 'SIGKILL');
    const reported = await until(async () => {
      const answer = await readiness(weir.port);
      return answer?.status === 503 && answer;
    });
    expect(reported).toMatchObject({ retryAfter: '1', checks: { database: 'failing' } });
    const refused = await until(() => sender.refusals.find(({ status }) => status === 503));
    expect(refused).toMatchObject({ retryAfter: expect.stringMatching(/^[1-9]\d*$/), code: 'database_unavailable' });

    await sender.acceptMore(300);
    expect((await postgresPids(weir.dataDir))!.postmaster).not.toBe(postmaster);
    await until(async () => (await readiness(weir.port))?.status === 200);
    await sender.stop();
    expect(sender.losses).toEqual([]);
    expect(await missing(weir.database, sender.accepted)).toEqual([]);
  });
}

/** The next Weir has these settings. */
export function primaryTests(chain: Chain, next: Parameters<Chain['startAgain']>[0]): void {
  test('the primary: its processes end, and the next primary joins the running Postgres', async () => {
    const { weir } = chain;
    const sender = await chain.startLoad();
    const processes = await weir.servingPids();
    const { postmaster } = (await postgresPids(weir.dataDir))!;
    kill(weir.pid, 'SIGKILL');
    await until(async () => (await Promise.all(processes.map(isGone))).every(Boolean));
    await until(async () => !(await isListening(weir.port)));
    await sender.stop();

    await chain.startAgain(next);
    expect((await postgresPids(weir.dataDir))!.postmaster).toBe(postmaster);
    expect(await missing(chain.weir.database, sender.accepted)).toEqual([]);
    const again = await chain.startLoad();
    await again.stop();
    expect(await missing(chain.weir.database, again.accepted)).toEqual([]);
  });
}
