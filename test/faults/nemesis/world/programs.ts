/** The webhooks and the agents of a run. */

import type { Link } from '../../../helpers/link.ts';
import { until } from '../../../helpers/wait.ts';
import { newSecret } from '../clients/senders.ts';
import type { Agent, Webhook } from '../history.ts';
import type { World } from './world.ts';

export const webhooks: readonly Omit<Webhook, 'id' | 'secrets'>[] = [
  { name: 'w0', scheme: 'sha256', keyHeader: 'x-key', more: { dedupe_header: 'x-key' } },
  { name: 'w1', scheme: 'github' },
  { name: 'w2', scheme: 'stripe' },
  { name: 'w3', scheme: 'standard-webhooks', keyHeader: 'webhook-id', inCell: true },
  { name: 'w4', scheme: 'sha256', batches: true },
  { name: 'w5', scheme: 'sha256', keyHeader: 'x-key', inCell: true, more: { dedupe_header: 'x-key' } },
  { name: 'w6', scheme: 'basic', more: { retention_days: 1 } },
];

const all = webhooks.map(({ name }) => name);

export const FILTER = 'has(body.passes) && body.passes == 1';

export const agents: readonly Omit<Agent, 'id' | 'credential' | 'lost'>[] = [
  { name: 'a0', webhooks: all, clients: 2 },
  { name: 'a1', webhooks: ['w0', 'w1', 'w5'], clients: 2, filter: FILTER },
  { name: 'a2', webhooks: ['w1', 'w2', 'w5', 'w6'], clients: 3, maxLeased: 3 },
  { name: 'a3', webhooks: ['w6'], clients: 1, maxLeased: 1, nacks: 0 },
  { name: 'a4', webhooks: ['w0', 'w4'], clients: 2, nacks: 0.6 },
  { name: 'a5', webhooks: ['w0', 'w2', 'w3'], clients: 0, role: 'library' },
  { name: 'a6', webhooks: [], clients: 1, role: 'joins and leaves' },
  { name: 'a7', webhooks: [], clients: 1, role: 'gets replays' },
  { name: 'a8', webhooks: ['w1', 'w3'], clients: 1, filterChanges: true },
];

/** The webhook to which the agent that joins and leaves is subscribed now and then. */
export const JOINED = 'w1';

/** Creates them, and the cell, when there is a server for it. */
export async function createPrograms(world: World, linkTo: (port: number) => Promise<Link>): Promise<void> {
  const created = async (path: string, body: object, idempotencyKey: string) => {
    const reply = await until(async () => {
      const answer = await world.api('POST', path, body, { idempotencyKey });
      return answer.status < 500 && answer;
    });
    if (reply.status !== 201) throw new Error(`POST ${path} was answered ${reply.status}: ${reply.text}`);
    return reply.body;
  };
  const cell = world.servers[1];
  if (cell !== undefined) {
    const database = `postgres://weir@127.0.0.1:${(await linkTo(cell.port)).port}/weir`;
    await created('/cells', { name: 'cell', database }, 'cell');
  }
  for (const webhook of webhooks) {
    const secret = newSecret(webhook);
    const fields = { name: webhook.name, signature_scheme: webhook.scheme, secret, ...webhook.more };
    const place = cell === undefined ? {} : { cell: webhook.inCell ? 1 : 0 };
    const { id } = await created('/webhooks', { ...fields, ...place }, webhook.name);
    world.webhooks.push({ ...webhook, id, secrets: [secret] });
  }
  for (const agent of agents) {
    const ids = world.webhooks.filter(({ name }) => agent.webhooks.includes(name)).map(({ id }) => id);
    const fields = { name: agent.name, webhook_ids: ids, ...(agent.maxLeased && { max_leased: agent.maxLeased }) };
    const { id, credential } = await created('/agents', fields, agent.name);
    world.agents.push({ ...agent, id, credential, lost: false });
    for (const webhook of agent.filter ? ids : []) {
      const { status, text } = await world.api('PUT', `/agents/${id}/subscriptions/${webhook}`, {
        filter: agent.filter,
      });
      if (status >= 300) throw new Error(`the filter was answered ${status}: ${text}`);
    }
  }
}
