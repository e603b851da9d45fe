/** The first steps of an installation: which of them are done. */
import type { Database } from '../connect/pool.ts';

export interface FirstSteps {
  /** Id of the newest webhook; null without webhooks. */
  webhook: string | null;
  event: boolean;
  /** Id of the newest active agent; null without active agents. */
  agent: string | null;
  acknowledged: boolean;
  colleague: boolean;
}

/** Adds the events and deliveries of another cell to the steps of home, which has all other facts. */
function both(home: FirstSteps, { event, acknowledged }: FirstSteps): FirstSteps {
  return { ...home, event: home.event || event, acknowledged: home.acknowledged || acknowledged };
}

/** Reads what is done. Of the deliveries, the oldest and newest 1,000 are read: agents claim the oldest first. */
export async function readFirstSteps(database: Database): Promise<FirstSteps> {
  const [steps] = await database.query<FirstSteps>({
    text: `
      select
        (select id::text from webhooks where deleted_at is null order by created_at desc limit 1) as webhook,
        exists (select 1 from events) as event,
        (select id::text from agents where revoked_at is null and not temporary order by created_at desc limit 1) as agent,
        exists (
          select 1 from (
            (select state from deliveries order by received_at, id limit 1000)
            union all
            (select state from deliveries order by received_at desc, id desc limit 1000)) d
          where state = 'done') as acknowledged,
        (select count(*) from (select 1 from users limit 2) u) > 1 as colleague`,
    place: { each: (byCell) => [byCell.flat().reduce(both)], lenient: true },
  });
  return steps!;
}
