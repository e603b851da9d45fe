import { describe, expect, test } from 'vitest';
import { DAY_MS } from '../../../server/base/time/durations.ts';
import { partitionName } from '../../../server/store/retention/partitions.ts';
import { addAgent, startAgentApp } from '../../helpers/agents.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(startAgentApp);
const webhook = shared(() => app.addWebhook());

const send = (body: string) => fetch(webhook.url, signedRequest({ secret: webhook.secret, body }));
const count = async () => {
  const [row] = await app.sql<{ count: number }>('select count(*)::int as count from events');
  return row!.count;
};

test('a database that restarts repeatedly under load causes no wrong response and no crash', async () => {
  const accepted = new Set<string>();
  let refused = 0;
  for (let round = 0; round < 4; round++) {
    const loads = Array.from({ length: 40 }, async (_, i) => {
      const response = await send(`round ${round}, event ${i}`);
      expect([202, 503]).toContain(response.status);
      if (response.status === 202) accepted.add(((await response.json()) as { id: string }).id);
      else refused++;
    });
    await app.cutOff();
    await Promise.all(loads);
    const away = await send('while it is away');
    expect([away.status, away.headers.get('retry-after')]).toEqual([503, '1']);
    await app.restore();
    await until(async () => (await app.metric('weir_database_up')) === 1);
  }
  await until(async () => (await fetch(`${app.url}/readyz`)).status === 200);
  expect((await send('at last')).status).toBe(202);
  const rows = await app.sql<{ id: string }>('select id from events');
  const stored = new Set(rows.map(({ id }) => id));
  expect([...accepted].filter((id) => !stored.has(id))).toEqual([]);
  expect(accepted.size + refused).toBe(160);
  expect(await count()).toBeGreaterThan(accepted.size);
  expect(await app.metric('weir_body_bytes_held')).toBe(0);
});

describe('without a partition', () => {
  const webhook = shared(() => app.addWebhook({ dedupe_header: 'x-id' }));
  const agent = shared(() => addAgent(app, [webhook]));

  test.each([{}, { 'x-id': 'one' }])(
    'a commit without a partition creates it, and the retry is stored (%o)',
    async (headers) => {
      const send = () => {
        const request = signedRequest({ secret: webhook.secret, body: '{}' });
        return fetch(webhook.url, { ...request, headers: { ...(request.headers as object), ...headers } });
      };
      await app.sql(`drop table ${partitionName('events', Date.now())}`);
      const first = await send();
      expect([first.status, first.headers.get('retry-after')]).toEqual([503, '1']);
      await until(async () => (await send()).status === 202);
      expect((await agent.claim()).length).toBeGreaterThan(0);
      const lines = app.logLines.map((line) => JSON.parse(line) as { event: string; partitions?: string[] });
      const made = lines.flatMap(({ event, partitions }) => (event === 'partitions_created' ? partitions! : []));
      expect(made).toContain(partitionName('events', Date.now()));
      expect(made).not.toContain(partitionName('events', Date.now() + DAY_MS));
    },
  );
});
