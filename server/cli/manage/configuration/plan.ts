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
import { ofAgent, readList } from '../lists.ts';

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

export interface ConfigurationChange {
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

/** Reads every webhook, agent and subscription of a Weir. */
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
    const { items } = one.webhooks === 0 ? { items: [] } : await readList(ofAgent(call, id), 'listAgentWebhooks');
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
export function planChanges(
  current: Current,
  { webhooks, agents }: Configuration,
  prunes: boolean,
): ConfigurationChange[] {
  const removed = prunes
    ? { webhooks: missing(current.webhooks, webhooks), agents: missing(current.agents, agents) }
    : { webhooks: [], agents: [] };
  const names = new Map([...current.webhooks.values(), ...(webhooks ?? [])].map(({ id, name }) => [id, String(name)]));
  const isKept = (id: string) => names.has(id) && !removed.webhooks.some((webhook) => webhook.id === id);

  const changesOfAgent = ({
    id,
    subscriptions,
    ...wanted
  }: NonNullable<typeof agents>[number]): ConfigurationChange[] => {
    const name = String(wanted.name);
    const before = current.agents.get(id);
    const base = { kind: 'subscription', id, name } as const;
    const changes = changeOf({ kind: 'agent', id, name }, ownOf('agent', wanted), before?.members);
    for (const { webhook: webhook_id, ...members } of subscriptions) {
      if (!isKept(webhook_id))
        throw new CommandError(
          `agent ${name}: it subscribes to the webhook ${webhook_id}, which is not in the file`,
          2,
        );
      const one = { ...base, webhook_id, webhook_name: names.get(webhook_id)! };
      changes.push(...changeOf(one, ownOf('subscription', members), before?.subscriptions.get(webhook_id)));
    }
    for (const webhook_id of before?.subscriptions.keys() ?? [])
      if (!subscriptions.some(({ webhook }) => webhook === webhook_id))
        changes.push(deletion({ ...base, webhook_id, webhook_name: names.get(webhook_id)! }));
    return changes;
  };

  return [
    ...(webhooks ?? []).flatMap((webhook) => changeOfWebhook(webhook, current.webhooks.get(webhook.id))),
    // Before the other agents: a new one may have the name of one that is revoked.
    ...removed.agents.map(({ id, name }) => deletion({ kind: 'agent', id, name })),
    ...renamedFirst((agents ?? []).flatMap(changesOfAgent)),
    ...removed.webhooks.map(({ id, name }) => deletion({ kind: 'webhook', id, name })),
  ];
}

/** What exists and the section does not list; nothing without the section. */
function missing<One extends { id: string }>(
  all: Map<string, One>,
  section: readonly { id: string }[] | undefined,
): One[] {
  if (section === undefined) return [];
  const ids = new Set(section.map(({ id }) => id));
  return [...all.values()].filter(({ id }) => !ids.has(id));
}

/** Puts renamed agents first: a new agent may have the former name of another. */
function renamedFirst(changes: readonly ConfigurationChange[]): ConfigurationChange[] {
  const isRenamed = ({ kind, action, members }: ConfigurationChange) =>
    kind === 'agent' && action === 'update' && 'name' in members;
  return [...changes.filter(isRenamed), ...changes.filter((change) => !isRenamed(change))];
}

type Changed = Pick<ConfigurationChange, 'kind' | 'id' | 'name' | 'webhook_id' | 'webhook_name'>;

function deletion(what: Changed): ConfigurationChange {
  return { ...what, action: 'delete', members: {}, before: {}, references: {} };
}

function changeOfWebhook(
  { secret, verify_token, ...wanted }: ConfiguredWebhook,
  now?: CurrentWebhook,
): ConfigurationChange[] {
  const name = String(wanted.name);
  const members = ownOf('webhook', wanted);
  const needsSecret = now === undefined || (members.public_key === null && !usesSecret(now));
  const { hasVerifyToken = false } = now ?? {};
  const endsToken = hasVerifyToken && verify_token === undefined;
  return changeOf(
    { kind: 'webhook', id: wanted.id, name },
    { ...members, ...(endsToken && { verify_token: null }) },
    now?.members,
    {
      ...(secret !== undefined && needsSecret && { secret }),
      ...(verify_token !== undefined && !hasVerifyToken && { verify_token }),
    },
  );
}

/** The change of one resource; none when its members are as wanted, and no secret is to be set. */
function changeOf(
  what: Changed,
  members: Members,
  before: Members | undefined,
  references: ConfigurationChange['references'] = {},
): ConfigurationChange[] {
  if (before === undefined) return [{ ...what, action: 'create', members, before: {}, references }];
  const changed = differing(before, members);
  if (Object.keys(changed).length === 0 && Object.keys(references).length === 0) return [];
  return [{ ...what, action: 'update', members: changed, before, references }];
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
