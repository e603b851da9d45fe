/** Lists read the newest day of their range first, and then what is older. */

import { beforeAll, expect, test } from 'vitest';
import { DAY_MS } from '../../../../server/base/time/durations.ts';
import { EventSearch } from '../../../../server/manage/api/events/search.ts';
import { indexPastDays } from '../../../../server/store/retention/day-indexes.ts';
import { createDays } from '../../../../server/store/retention/partitions.ts';
import { startAgentApp, storeEvents } from '../../../helpers/agents.ts';
import { addPerson } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';

const app = shared(startAgentApp);
const viewer = shared(() => addPerson(app, 'viewer'));
const webhook = shared(() => app.addWebhook());
/** Ids, newest first; the last two are older than a day. */
let ids: string[];
beforeAll(async () => {
  const nowMs = Date.now();
  const agesMs = [0, 1, 2, DAY_MS + 3, DAY_MS + 4];
  const day = new Date(nowMs - DAY_MS - 4).toISOString().slice(0, 10);
  // Partitions begin with yesterday, which may be less than a day ago.
  await app.database
    .query({
      text: `create table if not exists older_events partition of events for values from ('${day}') to ('${day}'::date + 1)`,
    })
    .catch((error: Error) => {
      if (!/would overlap/.test(error.message)) throw error;
    });
  ids = [];
  for (const ageMs of agesMs) ids.push(...(await storeEvents(app.database, webhook.id, 1, nowMs - ageMs)));
});

async function pagesOf(query: string): Promise<string[][]> {
  const pages: string[][] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const { body } = await viewer.api('GET', `/api/v1/events?limit=2&${query}${cursor && `&cursor=${cursor}`}`);
    pages.push(body.items.map(({ id }: { id: string }) => id));
    cursor = body.next_cursor;
  }
  return pages;
}

test.each(['', 'webhook', 'content_type=text/plain'])(
  'a list with the filter "%s" continues with older events',
  async (given) => {
    const query = given === 'webhook' ? `webhook_id=${webhook.id}` : given;
    expect(await pagesOf(query)).toEqual([ids.slice(0, 2), ids.slice(2, 4), ids.slice(4)]);
    const counted = await viewer.api('GET', `/api/v1/events/count?${query}`);
    expect(counted.body).toEqual({ count: 5, exact: true });
  },
);

test('a range that ends more than a day ago has its own newest day', async () => {
  const to = new Date(Date.now() - DAY_MS / 2).toISOString();
  expect((await pagesOf(`to=${to}`)).flat()).toEqual(ids.slice(3));
});

test("a search for one webhook among other webhooks' events bounds its first slice by a query, and the next ones by time", async () => {
  const { id } = await app.addWebhook();
  const nowMs = Date.now();
  const [oldest] = await storeEvents(app.database, id, 1, nowMs - 500_000);
  const busy = await app.addWebhook();
  for (let i = 1; i < 5; i++) await storeEvents(app.database, busy.id, 1_000, nowMs - i * 100_000);
  let bounds = 0;
  const query: typeof app.database.query = (statement) => {
    if (/ offset /.test(statement.text)) bounds++;
    return app.database.query(statement);
  };
  const filter = {
    agentId: null,
    deliveryState: null,
    type: null,
    source: null,
    contentType: null,
    header: null,
    text: null,
  };
  const span = { from: new Date(nowMs - 600_000).toISOString(), to: null, before: null };
  const search = new EventSearch({ ...app.database, query }, Number.POSITIVE_INFINITY);
  const found = await search.find({ filter: { ...filter, webhookId: id }, span, limit: 50 });
  expect(found!.rows.map((row) => row.id)).toEqual([oldest]);
  expect(await search.count({ filter: { ...filter, webhookId: id }, span, limit: 50 })).toEqual({
    count: 1,
    exact: true,
  });
  expect(bounds).toBe(2);
});

test('a search for one webhook reads past days by index, also when its time is over and other webhooks had more than a slice', async () => {
  const dayMs = Math.floor(Date.now() / DAY_MS) * DAY_MS - 10 * DAY_MS;
  await createDays(app.database, [dayMs]);
  const [oldest] = await storeEvents(app.database, webhook.id, 1, dayMs);
  await storeEvents(app.database, (await app.addWebhook()).id, 1_001, dayMs + 1);
  await indexPastDays(app.database, Date.now());
  const others = { agentId: null, deliveryState: null, type: null, source: null, header: null, text: null };
  const span = { from: new Date(dayMs).toISOString(), to: new Date(dayMs + DAY_MS).toISOString(), before: null };
  const search = new EventSearch(app.database, 0);
  for (const contentType of [null, 'text/']) {
    const found = await search.find({ filter: { ...others, webhookId: webhook.id, contentType }, span, limit: 50 });
    expect([found!.rows.map(({ id }) => id), found!.stoppedAt]).toEqual([[oldest], null]);
  }
});
