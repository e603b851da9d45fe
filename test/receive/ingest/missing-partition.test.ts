import { expect, test } from 'vitest';
import { DAY_MS } from '../../../server/base/time/durations.ts';
import { partitionName } from '../../../server/store/retention/partitions.ts';
import { addAgent, startAgentApp } from '../../helpers/agents.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(startAgentApp);
const webhook = shared(() => app.addWebhook({ dedupe_header: 'x-id' }));
const agent = shared(() => addAgent(app, [webhook]));

test.each([{}, { 'x-id': 'one' }])(
  'a commit without a partition creates it, and the retry is stored (%o)',
  async (headers) => {
    const send = () => {
      const request = signedRequest({ secret: webhook.secret, body: '{}' });
      return fetch(webhook.url, { ...request, headers: { ...(request.headers as object), ...headers } });
    };
    await app.database.query({ text: `drop table ${partitionName('events', Date.now())}` });
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
