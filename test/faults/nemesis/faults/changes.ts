/** Changes by the API in the middle of faults, which must be answered, and commands. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { newSecret } from '../clients/senders.ts';
import type { Fault } from '../faults.ts';
import type { Agent, Change, ReplayJob } from '../history.ts';
import { FILTER, JOINED } from '../world/programs.ts';
import type { World } from '../world/world.ts';

/** Bounds of a replay: events that are stored since, and not long before. */
const REPLAY_UNTIL_MS = 6_000;
const REPLAY_MS = [10_000, 40_000] as const;
const FILTERS = [null, 'bytes < 500', FILTER, 'event_type == "push"', 'body.missing == 1'];

type Request = readonly [method: string, path: string, body?: object];

const agentOf = ({ agents }: World, role: Agent['role']) => agents.find((agent) => agent.role === role)!;
const webhookOf = ({ webhooks }: World, name: string) => webhooks.find((webhook) => webhook.name === name)!;

/** Makes a change and keeps when it was sent and answered, from before it is sent. */
async function record<More extends object>(
  { change }: World,
  list: Change[],
  more: More,
  [method, path, body]: Request,
) {
  const what = `${method} ${path}`;
  const entry: Change & More = {
    what,
    sentAt: Date.now(),
    answeredAt: Number.POSITIVE_INFINITY,
    status: null,
    ...more,
  };
  list.push(entry);
  const reply = await change(method, path, body);
  entry.answeredAt = Date.now();
  entry.status = reply?.status ?? null;
  return { entry, reply, done: reply !== null && reply.status < 300, what: `${what}: ${reply?.status ?? 'no answer'}` };
}

export const changeFaults = {
  'a secret is rotated': {
    weight: 3,
    async start({ webhooks, change }, draw) {
      const webhook = draw.of(webhooks);
      const secret = newSecret(webhook);
      const body = { secret, overlap_seconds: draw.of([0, 5, 60]) };
      const reply = await change('POST', `/webhooks/${webhook.id}/rotate-secret`, body);
      // Without a response either secret may be the current one; 409 says so of an attempt before.
      if (reply === null || reply.status < 300 || reply.status === 409) webhook.secrets.push(secret);
      return { what: `${webhook.name}: ${reply?.status}` };
    },
  },
  'an agent subscribes or leaves': {
    weight: 4,
    async start(world) {
      const { subscriptions } = world.history;
      const { id } = agentOf(world, 'joins and leaves');
      const on = !(subscriptions.at(-1)?.on ?? false);
      const put = ['PUT', `/agents/${id}/subscriptions/${webhookOf(world, JOINED).id}`, { filter: null }] as const;
      return record(world, subscriptions, { on }, on ? put : ['PATCH', `/agents/${id}`, { webhook_ids: [] }]);
    },
  },
  'a filter is changed': {
    weight: 2,
    async start(world, draw) {
      const agent = world.agents.find(({ filterChanges }) => filterChanges)!;
      const { id } = webhookOf(world, draw.of(agent.webhooks));
      const reply = await world.change('PUT', `/agents/${agent.id}/subscriptions/${id}`, { filter: draw.of(FILTERS) });
      return { what: `${reply?.status}` };
    },
  },
  'a credential is rotated': {
    weight: 3,
    async start(world, draw) {
      const agent = draw.of(world.agents.filter(({ role }) => role === undefined || role === 'library'));
      const { reply, done, what } = await record(world, world.history.rotations, { agent: agent.name }, [
        'POST',
        `/agents/${agent.id}/rotate`,
      ]);
      if (done) agent.credential = reply!.body.credential;
      else agent.lost = true;
      if (agent.role === 'library') await writeFile(join(world.folder, 'library.credential'), agent.credential);
      return { what };
    },
  },
  'events are replayed': {
    weight: 6,
    async start(world, draw) {
      const { history, change } = world;
      const webhook = draw.of(world.webhooks);
      const now = Date.now() + history.offsetMs;
      const toMs = now - REPLAY_UNTIL_MS;
      const fromMs = Math.max(history.beganAt + history.offsetMs, now - draw.between(...REPLAY_MS));
      if (toMs - fromMs < 1_000) return null;
      const job: Omit<ReplayJob, keyof Change> = {
        webhook: webhook.name,
        fromMs,
        toMs,
        id: null,
        cancelled: false,
        state: null,
      };
      const body = {
        webhook_id: webhook.id,
        from: new Date(fromMs).toISOString(),
        to: new Date(toMs).toISOString(),
        agent_ids: [agentOf(world, 'gets replays').id],
        beyond_subscriptions: true,
      };
      const { entry, reply, what } = await record(world, history.jobs, job, ['POST', '/events/replay', body]);
      entry.id = reply?.body?.job_id ?? null;
      if (reply?.status === 202 && draw.chance(0.15)) {
        await delay(draw.between(0, 500));
        entry.cancelled = true;
        await change('POST', `/jobs/${reply.body.job_id}/cancel`);
      }
      return { what: `${webhook.name} ${what}` };
    },
  },
  'dead deliveries are replayed': {
    weight: 4,
    async start(world, draw) {
      const { id } = world.agents.find(({ nacks = 0 }) => nacks > 0.5)!;
      const body = { state: 'dead', agent_id: id };
      const more = { undoneAt: Number.POSITIVE_INFINITY };
      const request = ['POST', '/deliveries/replay', body] as const;
      const { entry, reply, what } = await record(world, world.history.replays, more, request);
      if (reply?.body?.action_id && draw.chance(0.5)) {
        await delay(draw.between(0, 1_500));
        entry.undoneAt = Date.now();
        await world.change('POST', '/deliveries/undo', { action_id: reply.body.action_id });
      }
      return { what };
    },
  },
  'dead deliveries are dismissed': {
    weight: 2,
    async start(world, draw) {
      const { id } = world.agents.find(({ nacks = 0 }) => nacks > 0.5)!;
      const request = ['POST', '/deliveries/dismiss', { agent_id: id }] as const;
      const { reply, what } = await record(world, world.history.dismissals, {}, request);
      if (reply?.body?.action_id && draw.chance(0.6))
        await world.change('POST', '/deliveries/undo', { action_id: reply.body.action_id });
      return { what };
    },
  },
  'a webhook moves to another cell': {
    weight: 7,
    needs: ({ cell }) => cell,
    async start(world, draw) {
      const webhook = webhookOf(world, draw.of(['w5', 'w5', 'w0']));
      const to = draw.between(0, 1);
      const reply = await world.change('POST', `/webhooks/${webhook.id}/move`, { cell: to });
      return { what: `${webhook.name} to ${to}: ${reply?.status}` };
    },
  },
  'a cell is drained': {
    weight: 1,
    needs: ({ cell }) => cell,
    async start({ change }) {
      const reply = await change('POST', '/cells/1/drain', {});
      return { what: `${reply?.status}` };
    },
  },
  'a webhook is turned off': {
    weight: 2,
    forMs: [200, 2_000],
    async start({ webhooks, change }, draw) {
      const { id, name } = draw.of(webhooks);
      const reply = await change('PATCH', `/webhooks/${id}`, { enabled: false });
      return { what: `${name}: ${reply?.status}`, heal: () => change('PATCH', `/webhooks/${id}`, { enabled: true }) };
    },
  },
  'a limit of leases is changed': {
    weight: 2,
    async start({ agents, change }, draw) {
      const { id } = agents.find(({ filterChanges }) => filterChanges)!;
      const reply = await change('PATCH', `/agents/${id}`, { max_leased: draw.of([null, 5, 50]) });
      return { what: `${reply?.status}` };
    },
  },
} satisfies Record<string, Fault>;
