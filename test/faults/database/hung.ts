/** A Postgres that hangs, and one that commits while its result is lost. */
import { expect, test } from 'vitest';
import type { Chain } from '../../helpers/chain.ts';
import { postgresPids } from '../../helpers/processes.ts';
import { missing } from '../../helpers/sender.ts';
import { until } from '../../helpers/wait.ts';
import { kill, readiness } from '../../helpers/weir.ts';

const QUEUE_EVENTS_MAX = 40;

/** One process, whose queue is full soon. */
export const hungSettings = { WORKERS: 1, COMMIT_TIMEOUT_MS: 1000, QUEUE_EVENTS_MAX };

export function hungTests(chain: Chain): void {
  /** All its current processes: a stopped postmaster forks no more. */
  async function signalPostgres(signal: 'SIGSTOP' | 'SIGCONT'): Promise<void> {
    const { postmaster } = (await postgresPids(chain.weir.dataDir))!;
    kill(postmaster, signal);
    for (const pid of (await postgresPids(chain.weir.dataDir))!.backends) kill(pid, signal);
  }

  test('a hung Postgres: 503 within the commit timeout, and normal service after it resumes', async () => {
    const { weir } = chain;
    const sender = await chain.startLoad({ lanes: 100, perSecondMax: Infinity, first: 200 });
    await signalPostgres('SIGSTOP');
    try {
      // More requests than the queue holds: the others are refused at once, and memory stays bounded.
      const codes = () => new Set(sender.refusals.map(({ code }) => code));
      await until(() => codes().has('queue_full') && codes().has('database_unavailable'));
      expect([...codes()].sort()).toEqual(['database_unavailable', 'queue_full']);
      expect(sender.refusals.every(({ status, retryAfter }) => status === 503 && Number(retryAfter) >= 1)).toBe(true);
      expect(await weir.metric('weir_queue_events')).toBeLessThanOrEqual(QUEUE_EVENTS_MAX);
      const reported = await until(async () => {
        const answer = await readiness(weir.port);
        return answer?.status === 503 && answer;
      });
      expect(reported.checks.database).toBe('failing');
      // Postgres is stopped: a response did not wait for it.
      for (let asked = 0; asked < 5; asked++) expect((await readiness(weir.port))?.status).toBe(503);
    } finally {
      await signalPostgres('SIGCONT');
    }
    await sender.acceptMore(200);
    await until(async () => (await readiness(weir.port))?.status === 200);
    await sender.stop();
    expect(sender.losses).toEqual([]);
    expect(await missing(weir.database, sender.accepted)).toEqual([]);
  });

  test('a commit whose result is lost is looked up and answered 202', async () => {
    const { weir } = chain;
    const inDoubt = () => weir.metric('weir_events_in_doubt_total');
    const ask = (text: string) => weir.database.query<Record<string, string>>({ text });
    // With a missing synchronous standby, Postgres has committed but does not report it: then the session is closed.
    const awaitStandby = async (name: string) => {
      await ask(`alter system set synchronous_standby_names = '${name}'`);
      await ask('select pg_reload_conf()');
      await until(async () => (await ask('show synchronous_standby_names'))[0]!.synchronous_standby_names === name);
    };
    const lookedUp = () => chain.events('commit_in_doubt').filter(({ found }) => found === 1).length;
    const doubtful = await inDoubt();
    await awaitStandby('nobody');
    let sender: Awaited<ReturnType<Chain['startLoad']>>;
    try {
      sender = await chain.startLoad({ lanes: 1, first: 0 });
      // A COPY from before does not wait for the standby and may succeed.
      await until(async () => {
        await ask("select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'");
        return lookedUp() >= 5;
      });
    } finally {
      await awaitStandby('');
    }
    await sender.stop();
    expect(sender.accepted.size).toBeGreaterThanOrEqual(5);
    expect(await inDoubt()).toBeGreaterThanOrEqual(doubtful + 5);
    expect(await missing(weir.database, sender.accepted)).toEqual([]);
  });
}
