import { expect, test } from 'vitest';
import { addAgent, send, startAgentApp } from '../../../helpers/agents.ts';
import { weir, weirJson } from '../../../helpers/command.ts';
import { shared } from '../../../helpers/shared.ts';

const app = shared(() => startAgentApp({ DELIVERY_MAX_ATTEMPTS: 1 }));

async function deadLetters(count: number) {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  for (let i = 0; i < count; i++) await send(webhook);
  const claimed = await agent.claim();
  await agent.nack(
    claimed.map(({ receipt }) => receipt),
    { reason: 'timeout calling \u001b[31mCRM' },
  );
  return { webhook, agent, ids: claimed.map(({ id }) => id) };
}

test('show prints a delivery with its attempts; an unknown id is a failure', async () => {
  const { agent, ids } = await deadLetters(1);
  const shown = await weir(app, 'delivery', 'show', ids[0]!);
  expect([shown.code, shown.err]).toEqual([0, '']);
  expect(shown.out).toMatch(/^Event +[0-9a-f-]{36}\n[\s\S]*State +dead\n/);
  expect(shown.out).toMatch(new RegExp(`\\nAgent +test [0-9a-f-]{36} \\(${agent.id}\\)\\n`));
  expect(shown.out).toMatch(
    /\nTIME +AGENT ADDRESS +OUTCOME +DURATION +REASON\n\S+Z +127\.0\.0\.1 +rejected +\d+\.\d{3} s +timeout calling \\x1b\[31mCRM\n$/,
  );
  const { out } = await weir(app, 'delivery', 'show', ids[0]!, '--json');
  expect(JSON.parse(out)).toMatchObject({ id: ids[0], agent_id: agent.id, state: 'dead' });
  expect(await weir(app, 'delivery', 'show', agent.id)).toMatchObject({
    code: 1,
    err: expect.stringContaining('no delivery has the id'),
  });
});

test('list shows the name of an agent', async () => {
  const { agent, ids } = await deadLetters(1);
  const { name } = (await weirJson(app, 'agent', 'show', agent.id)) as { name: string };
  const { out } = await weir(app, 'delivery', 'list', '--agent', name);
  expect(out).toMatch(new RegExp(`\\n${ids[0]} +[0-9a-f-]{36} +${name} +dead `));
});

test('dead letters are counted by reason, dismissed, restored and replayed', async () => {
  const { webhook, agent, ids } = await deadLetters(3);
  const counted = await weir(app, 'delivery', 'dead', '--webhook', webhook.id);
  expect(counted.out).toMatch(/^DELIVERIES +AGENTS +LAST +REASON\n3 +1 +\S+Z +timeout calling \\x1b\[31mCRM\n$/);

  const dismissed = await weir(app, 'delivery', 'dismiss', '--all-agents', '--webhook', webhook.id);
  expect(dismissed.out).toMatch(/^3 deliveries are dismissed\.\nUndo: weir delivery undo [0-9a-f-]{36}\n$/);
  expect((await weir(app, 'delivery', 'dead', '--webhook', webhook.id)).out).toBe('No dead letters.\n');
  const undone = await weir(app, 'delivery', 'undo', dismissed.out.trim().split(' ').at(-1)!);
  expect(undone).toMatchObject({ code: 0, out: '3 deliveries are restored.\n' });

  const one = await weir(app, 'delivery', 'dismiss', ids[0]!);
  expect(one).toMatchObject({ code: 0, out: '1 delivery is dismissed.\n' });
  const other = ['--reason', 'another'];
  const none = await weir(app, 'delivery', 'replay', '--agent', agent.id, ...other, '--json');
  expect(JSON.parse(none.out)).toEqual({
    replayed: 0,
    more: false,
    finished_before: expect.stringMatching(/Z$/),
    action_id: null,
  });
  const replayed = await weir(app, 'delivery', 'replay', '--agent', agent.id, '--state', 'dismissed');
  expect(replayed.out).toMatch(/^1 delivery is pending again\.\n/);
  expect(await agent.claim()).toHaveLength(1);
});
