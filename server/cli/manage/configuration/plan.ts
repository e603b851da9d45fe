/** Compares the configuration of a Weir with a file. */
import { isDeepStrictEqual } from 'node:util';
import { CommandError } from '../../../base/command/io.ts';
import {
  type Configuration,
  type ConfiguredWebhook,
  configured,
  type Members,
  type Reference,
  type secretMembers,
} from '../../../model/configuration.ts';
import { isUnverified } from '../../../model/webhook-schemes.ts';
import type { Call } from '../call.ts';
import { readList } from '../lists.ts';

export interface CurrentWebhook {
  id: string;
  name: string;
  members: Members;
  hasSecret: boolean;
  hasVerifyToken: boolean;
}

/** A secret that was stored before the webhook got a public key verifies nothing. */
export function usesSecret({ hasSecret, members }: CurrentWebhook): boolean {
  return hasSecret && members.public_key === null;
}

interface CurrentAgent {
  id: string;
  name: string;
  members: Members;
  /** By id of the webhook. */
  subscriptions: Map<string, Members>;
}

/** The webhooks and agents of a Weir, by id; without revoked and temporary agents. */
export interface Current {
  webhooks: Map<string, CurrentWebhook>;
  agents: Map<string, CurrentAgent>;
}

export interface Change {
  action: 'create' | 'update' | 'delete';
  kind: 'webhook' | 'agent' | 'subscription';
  /** The id of the webhook or agent; for a subscription, that of the agent. */
  id: string;
  name: string;
  /** The webhook of a subscription. */
  webhook_id?: string;
  webhook_name?: string;
  /** What a creation or an update sets. */
  members: Members;
  /** What the members were before an update. */
  before: Members;
  /** Secrets that an action sets. */
  references: Partial<Record<(typeof secretMembers)[number], Reference>>;
  /** Deliveries that are pending or leased, for a deletion. */
  undelivered?: number;
}

/** Reads the present configuration. */
export async function readCurrent(call: Call): Promise<Current> {
  const webhooks = new Map<string, CurrentWebhook>();
  for (const one of (await readList(call, 'listWebhooks')).items) {
    const { id, name, has_secret: hasSecret, has_verify_token: hasVerifyToken } = one;
    webhooks.set(id, { id, name, members: ownOf('webhook', one), hasSecret, hasVerifyToken });
  }
  const agents = new Map<string, CurrentAgent>();
  for (const one of (await readList(call, 'listAgents', { revoked: false })).items) {
    if (one.temporary) continue;
    const { id, name } = one;
    const ofAgent: Call = (operation, given) => call(operation, { ...given, id });
    const { items } = one.webhooks === 0 ? { items: [] } : await readList(ofAgent, 'listAgentWebhooks');
    const subscriptions = items.map((item) => [item.webhook_id, ownOf('subscription', item)] as const);
    agents.set(id, { id, name, members: ownOf('agent', one), subscriptions: new Map(subscriptions) });
  }
  return { webhooks, agents };
}

function ownOf(kind: keyof typeof configured, given: object): Members {
  const values = given as Members;
  return Object.fromEntries(
    Object.entries(configured[kind]).map(([name, { standard }]) => [name, values[name] ?? standard]),
  );
}

/**
 * The changes that make the current configuration that of the file, in an order in which they can be made. Throws CommandError.
 * @param prunes deletes what the sections of the file do not have
 */
export function planOf(current: Current, { webhooks, agents }: Configuration, prunes: boolean): Change[] {
  const wanted = new Set(webhooks?.map(({ id }) => id) ?? []);
  const names = new Map([...current.webhooks.values(), ...(webhooks ?? [])].map(({ id, name }) => [id, String(name)]));
  const isPruned = (id: string) => prunes && webhooks !== undefined && !wanted.has(id);
  const nameOf = (agent: string, id: string) => {
    if (!names.has(id) || isPruned(id))
      throw new CommandError(`agent ${agent}: it subscribes to the webhook ${id}, which is not in the file`, 2);
    return names.get(id)!;
  };
  const deletions = <One extends { id: string; name: string }>(
    kind: 'webhook' | 'agent',
    all: Map<string, One>,
    kept: readonly { id: string }[] | undefined,
  ): Change[] => {
    if (!prunes || kept === undefined) return [];
    const ids = new Set(kept.map(({ id }) => id));
    const removed = [...all.values()].filter(({ id }) => !ids.has(id));
    return removed.map(({ id, name }) => ({ ...nothing, action: 'delete', kind, id, name }));
  };
  return [
    ...(webhooks ?? []).flatMap((webhook) => changeOf('webhook', webhook, current.webhooks.get(webhook.id))),
    // First, since a new agent may have the name of one that goes.
    ...deletions('agent', current.agents, agents),
    ...renamedFirst(
      (agents ?? []).flatMap((agent) => {
        const before = current.agents.get(agent.id);
        const name = String(agent.name);
        return [
          ...changeOf('agent', agent, before),
          ...subscriptionChanges(agent.subscriptions, before?.subscriptions ?? new Map()).map((change) => ({
            ...change,
            id: agent.id,
            name,
            webhook_name: change.action === 'delete' ? names.get(change.webhook_id)! : nameOf(name, change.webhook_id),
          })),
        ];
      }),
    ),
    ...deletions('webhook', current.webhooks, webhooks),
  ];
}

/** A new agent may have the name that another one had. */
function renamedFirst(changes: readonly Change[]): Change[] {
  const isRenamed = ({ kind, action, members }: Change) => kind === 'agent' && action === 'update' && 'name' in members;
  return [...changes.filter(isRenamed), ...changes.filter((change) => !isRenamed(change))];
}

const nothing = { members: {}, before: {}, references: {} };

function changeOf(
  kind: 'webhook' | 'agent',
  wanted: Members & { id: string; secret?: Reference | undefined; verify_token?: Reference | undefined },
  before: (CurrentAgent | CurrentWebhook) | undefined,
): Change[] {
  const { id } = wanted;
  const members = ownOf(kind, wanted);
  const name = String(members.name);
  const needsSecret = before === undefined || (members.public_key === null && !usesSecret(before as CurrentWebhook));
  const { hasVerifyToken = false } = (before ?? {}) as Partial<CurrentWebhook>;
  const references = {
    ...(wanted.secret !== undefined && needsSecret && { secret: wanted.secret }),
    ...(wanted.verify_token !== undefined && !hasVerifyToken && { verify_token: wanted.verify_token }),
  };
  if (before === undefined) return [{ ...nothing, action: 'create', kind, id, name, members, references }];
  const changed = differing(before.members, members);
  if (hasVerifyToken && wanted.verify_token === undefined) changed.verify_token = null;
  if (Object.keys(changed).length === 0 && Object.keys(references).length === 0) return [];
  return [{ action: 'update', kind, id, name, members: changed, before: before.members, references }];
}

function subscriptionChanges(
  wanted: readonly ({ webhook: string } & Members)[],
  before: ReadonlyMap<string, Members>,
): (Change & { webhook_id: string })[] {
  const base = { ...nothing, kind: 'subscription' as const, id: '', name: '' };
  const kept = new Set(wanted.map(({ webhook }) => webhook));
  return [
    ...wanted.flatMap(({ webhook: webhook_id, ...given }): (Change & { webhook_id: string })[] => {
      const members = ownOf('subscription', given);
      const now = before.get(webhook_id);
      if (now === undefined) return [{ ...base, action: 'create', webhook_id, members }];
      const changed = differing(now, members);
      if (Object.keys(changed).length === 0) return [];
      return [{ ...base, action: 'update', webhook_id, members: changed, before: now }];
    }),
    ...[...before.keys()]
      .filter((id) => !kept.has(id))
      .map((webhook_id) => ({ ...base, action: 'delete' as const, webhook_id })),
  ];
}

function differing(before: Members, after: Members): Members {
  return Object.fromEntries(Object.entries(after).filter(([name, value]) => !isDeepStrictEqual(value, before[name])));
}

/** Webhooks that store requests without a check of their signature, once the file is applied. */
export function unverifiedOf(current: Current, webhooks: readonly ConfiguredWebhook[]): { id: string; name: string }[] {
  const open = webhooks.filter(({ id, secret, signature_scheme }) =>
    isUnverified({
      signature_scheme: String(signature_scheme),
      has_secret: secret !== undefined || (current.webhooks.get(id)?.hasSecret ?? false),
    }),
  );
  return open.map(({ id, name }) => ({ id, name: String(name) }));
}
