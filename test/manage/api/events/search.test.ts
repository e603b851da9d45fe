/**
 * Lists read the newest day of their range first, and then what is older. The work of a request ends when its client disconnects. Claims:
 * claim-wait.test.ts; streams: live/stream.test.ts.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { DAY_MS } from '../../../../server/base/time/durations.ts';
import { EventSearch } from '../../../../server/manage/api/events/search.ts';
import { startAgentApp, storeEvents } from '../../../helpers/agents.ts';
import { takeClock } from '../../../helpers/clock.ts';
import { addPerson } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';
import { until } from '../../../helpers/wait.ts';

const app = shared(startAgentApp);
const viewer = shared(() => addPerson(app, 'viewer'));
const operator = shared(() => addPerson(app, 'operator'));
const webhook = shared(() => app.addWebhook());
/** Ids, newest first; the last two are older than a day. */
let ids: string[];
beforeAll(async () => {
  const nowMs = Date.now();
  const agesMs = [0, 1, 2, DAY_MS + 3, DAY_MS + 4];
  const day = new Date(nowMs - DAY_MS - 4).toISOString().slice(0, 10);
  // Partitions begin with yesterday, which may be less than a day ago.
  await app
    .sql(
      `create table if not exists older_events partition of events for values from ('${day}') to ('${day}'::date + 1)`,
    )
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

test("a search for one webhook finds its events among other webhooks' without a time limit, in one statement", async () => {
  const { id } = await app.addWebhook();
  const nowMs = Date.now();
  const [oldest] = await storeEvents(app.database, id, 1, nowMs - DAY_MS - 5);
  await storeEvents(app.database, (await app.addWebhook()).id, 1_001, nowMs - DAY_MS - 4);
  let statements = 0;
  const query: typeof app.database.query = (statement) => {
    statements++;
    return app.database.query(statement);
  };
  const others = { agentId: null, deliveryState: null, type: null, source: null, header: null, text: null };
  const span = { from: null, to: null, before: null };
  const search = new EventSearch({ ...app.database, query }, 0);
  const wanted = { filter: { ...others, webhookId: id, contentType: null as string | null }, span, limit: 50 };
  const found = await search.find(wanted);
  expect([found!.rows.map((row) => row.id), found!.stoppedAt, statements]).toEqual([[oldest], null, 1]);
  expect(await search.count(wanted)).toEqual({ count: 1, exact: true });
  expect((await search.tally(wanted))!.counts).toEqual(new Map([[id, 1]]));
  expect(statements).toBe(3);
  // With another filter the slices have events of the webhook alone: this is the first one.
  wanted.filter.contentType = 'text/';
  expect((await search.find(wanted))!.rows.length).toBe(1);
});

describe('the work of', () => {
  let webhookId: string;

  beforeAll(async () => {
    const webhook = await app.addWebhook();
    webhookId = webhook.id;
    // A search reads three slices.
    await storeEvents(app.database, webhookId, 8_000);
  });

  /** Statements so far: each waits for a connection of the pool. */
  async function statements(): Promise<number> {
    const families = (await app.app.metrics()) as { name: string; values: { metricName?: string; value: number }[] }[];
    const { values } = families.find(({ name }) => name === 'weir_pool_wait_seconds')!;
    return values.find(({ metricName }) => metricName === 'weir_pool_wait_seconds_count')!.value;
  }

  test.each([
    ['a search', '/api/v1/events?q=nowhere', undefined],
    ['a count', '/api/v1/events/count?q=nowhere', undefined],
    ['an export', '/api/v1/events/export?q=nowhere', undefined],
    ['the preview of a replay', '/api/v1/events/replay', { preview: true, q: 'nowhere' }],
  ])('%s ends when its client disconnects', async (_what, path, given) => {
    // No time limit ends the work.
    takeClock();
    const body = given && JSON.stringify({ ...given, webhook_id: webhookId });
    const ask = async (signal?: AbortSignal) => {
      const response = await fetch(`${app.url}${path}`, {
        method: body === undefined ? 'GET' : 'POST',
        headers: { authorization: `Bearer ${operator.token}` },
        ...(body === undefined ? {} : { body }),
        ...(signal && { signal }),
      });
      await response.text();
      return response.status;
    };
    const before = await statements();
    expect(await ask()).toBe(200);
    const whole = (await statements()) - before;
    expect(whole).toBeGreaterThan(4);

    const gone = new AbortController();
    let asked = 0;
    await app.database.transaction(async (query) => {
      // The first statement on events waits until the client has left.
      await query({ text: 'lock table events in access exclusive mode' });
      const asking = ask(gone.signal).catch(() => 'disconnected');
      const waits = `select from pg_locks where not granted and relation = 'events'::regclass`;
      await until(async () => (await query({ text: waits })).length > 0);
      gone.abort();
      expect(await asking).toBe('disconnected');
      await until(async () => (await app.metric('weir_open_requests')) === 0);
      asked = await statements();
    });
    // What continues runs as many statements as one of these requests, and ends before both.
    for (let i = 0; i < 2; i++) expect(await ask()).toBe(200);
    expect((await statements()) - asked - 2 * whole).toBeLessThan(whole / 2);
  });
});
