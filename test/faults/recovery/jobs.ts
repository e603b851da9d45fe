/** A replay of many events while Weir and its Postgres are killed: each event is replayed once. */
import { expect, test } from 'vitest';
import { addAgent, storeEvents } from '../../helpers/agents.ts';
import type { Chain } from '../../helpers/chain.ts';
import { addPerson } from '../../helpers/people.ts';
import { postgresPids, processesOf } from '../../helpers/processes.ts';
import { until } from '../../helpers/wait.ts';
import { asApp, kill } from '../../helpers/weir.ts';

const EVENTS = 2_000;

interface Job {
  state: string;
  events: number;
}

export function jobTests(chain: Chain): void {
  async function readJob(id: string): Promise<Job> {
    const [job] = await chain.weir.sql<Job>('select state, events::int as events from jobs where id = $1', id);
    return job!;
  }

  test('kill -9 of Postgres, then of Weir with it, then TERM during a job: it continues where it was', async () => {
    // A batch of 100 a second.
    await chain.configure({ REPLAY_DELIVERIES_PER_SECOND: 100 });
    const app = asApp(chain.weir);
    const webhook = await chain.weir.addWebhook();
    const agent = await addAgent(app, [{ ...webhook, url: app.url + webhook.path }]);
    const person = await addPerson(app, 'operator');
    const stored = await storeEvents(chain.weir.database, webhook.id, EVENTS, Date.now() - 1_000);
    await chain.weir.sql('delete from deliveries');
    const created = await person.api('POST', '/api/v1/events/replay', {
      agent_ids: [agent.id],
      webhook_id: webhook.id,
    });
    expect(created.status, created.text).toBe(202);
    const id: string = created.body.job_id;

    await until(async () => (await readJob(id)).events > 0);
    // Postgres alone: Weir starts it again, and the job continues without a restart of Weir.
    const { postmaster } = (await postgresPids(chain.weir.dataDir))!;
    kill(postmaster, 'SIGKILL');
    const isNew = async () => ![undefined, postmaster].includes((await postgresPids(chain.weir.dataDir))?.postmaster);
    await until(isNew);
    const progress = () => readJob(id).catch(() => null);
    const { events: kept } = (await until(progress))!;
    expect(kept).toBeGreaterThan(0);
    await until(async () => ((await progress())?.events ?? 0) > kept);
    expect(chain.weir.child.exitCode).toBeNull();
    for (const { pid } of await processesOf(chain.weir.dataDir)) kill(pid, 'SIGKILL');
    await chain.weir.ended;
    // The rate is so low that the job does not end before the next step.
    await chain.startAgain({ REPLAY_DELIVERIES_PER_SECOND: 10 });
    const { state, events: before } = await readJob(id);
    expect(state).toBe('running');
    expect(before).toBeLessThan(EVENTS);
    chain.weir.signal('SIGTERM');
    await chain.weir.ended;
    await chain.startAgain({ REPLAY_DELIVERIES_PER_SECOND: 1_000_000 });
    await until(async () => (await readJob(id)).state === 'done');

    const rows = await chain.weir.sql<{ id: string }>(
      'select event_id as id from deliveries where agent_id = $1',
      agent.id,
    );
    expect(rows.map((row) => row.id).sort()).toEqual([...stored].sort());
    expect(await chain.weir.metric('weir_events_replayed_total')).toBeGreaterThan(0);
  });
}
