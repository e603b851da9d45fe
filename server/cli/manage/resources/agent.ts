/** `weir agent add|update|list|show|subscribe|unsubscribe|pause|resume|rotate|revoke`. */
import { open, rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import { CommandError, itemsTable, membersText } from '../../../base/command/io.ts';
import { weirCommand } from '../../../base/command/name.ts';
import type { BodyOf } from '../../../manage/api/operations.ts';
import { agentFields } from '../../../model/agents.ts';
import { wholeNumber } from '../../command/arguments.ts';
import type { Call } from '../call.ts';
import { idsOfGiven, ofAgent, readList } from '../lists.ts';
import { act, type Row, repeated, row } from '../row.ts';
import { changesOf, fieldOptions, membersOf } from './field-options.ts';

type Agent = BodyOf<'showAgent'>;
type CreatedAgent = BodyOf<'createAgent'>;
type Activity = BodyOf<'listAgentActivity'>['items'][number];

const NEVER = 'never';
const NO_WEBHOOKS = 'No subscriptions. See: weir agent subscribe';
/** Most ids of one request: a URL holds a few kilobytes. */
const IDS_MAX = 50;

const target = 'agent';
const webhook = ['--webhook <webhook>', 'this webhook, by id or name; may be repeated', repeated] as const;

export const rows: readonly Row[] = [
  row<{ webhook?: string[]; credentialFile?: string }>()({
    name: 'add',
    description: 'create an agent and print its credential, once',
    options: [
      ...fieldOptions(agentFields, 'add'),
      ['--webhook <webhook>', 'subscribe it to this webhook, by id or name; may be repeated', repeated],
      ['--credential-file <file>', 'write the credential to this new file, which only you can read'],
    ],
    run: async (call, { options, io }) => {
      const webhook_ids = await idsOfGiven(call, 'webhook', options.webhook);
      const input = { ...(await membersOf(io, agentFields, options)), webhook_ids };
      const create = () => call('createAgent', { input });
      return options.credentialFile === undefined
        ? create()
        : createWithFile(resolve(io.directory, options.credentialFile), create);
    },
    text: (agent, { options: { credentialFile: file }, connection: { clientCommand, apiUrl } }) =>
      `Agent ${agent.name} created.\n  ID          ${agent.id}\n${file === undefined ? credentialText(agent) : `  Credential  in ${file}\n`}` +
      `\n${file === undefined ? 'Store the credential in a file, then' : 'Receive its events'}:  ${clientCommand} consume ${apiUrl} --credential-file ${file ?? 'FILE'}\n`,
  }),

  row()({
    name: 'update',
    description: 'change the name or the limit of an agent',
    target,
    options: fieldOptions(agentFields, 'update'),
    run: async (call, { id, options, io }) =>
      call('updateAgent', { id, input: await changesOf(io, agentFields, options) }),
    text: (_, { key }) => `${key}: updated.\n`,
  }),

  row<{ json?: boolean }>()({
    name: 'list',
    description: 'show all agents, newest first',
    run: async (call, { options: { json } }) => {
      const page = await readList(call, 'listAgents');
      return { page, items: json ? [] : await withActivity(call, page.items) };
    },
    json: ({ page }) => page,
    list: {
      columns: ['ID', 'NAME', 'STATE', 'WEBHOOKS', 'FILTERS', 'MAX LEASED', 'LAST SEEN', 'CREATED'],
      cells: ['id', 'name', stateOf, 'webhooks', 'filters', limitOf, seenOf, 'created_at'],
      whenEmpty: () => `No agents yet. Create one: ${weirCommand()} agent add --name ci --webhook ID`,
    },
  }),

  row<{ json?: boolean }>()({
    name: 'show',
    description: 'show one agent, and its first webhooks with their filters',
    target,
    run: async (call, { id, options: { json } }) => {
      const agent = await call('showAgent', { id });
      if (json) return { agent, shown: [], webhooks: [] };
      const { items: webhooks } = await call('listAgentWebhooks', { id });
      return { agent, shown: await withActivity(call, [agent]), webhooks };
    },
    json: ({ agent }) => agent,
    text: ({ shown: [agent], webhooks }) => agentText(agent!, webhooks),
  }),

  row<{ filtered?: boolean }>()({
    name: 'webhooks',
    description: 'list the webhooks of an agent with filters and order',
    target,
    options: [['--filtered', 'only those with a filter']],
    run: (call, { id, options: { filtered } }) => readList(ofAgent(call, id), 'listAgentWebhooks', { filtered }),
    list: {
      columns: ['WEBHOOK', 'NAME', 'FILTER', 'ORDER BY'],
      cells: ['webhook_id', 'name', ['filter', 'none'], ['order_by', 'none']],
      whenEmpty: NO_WEBHOOKS,
    },
  }),

  row<{ webhook: string[]; filter?: string; orderBy?: string }>()({
    name: 'subscribe',
    description: 'subscribe an agent to webhooks; their new events become its deliveries',
    target,
    options: [
      ['--filter <expression>', "deliver only events for which this CEL expression is true; '' removes the filter"],
      [
        '--order-by <key>',
        "deliver events with the same key one after the other: a JSON Pointer into the body, or header:NAME; '' removes the order",
      ],
    ],
    required: [webhook],
    run: async (call, { id, options }) => {
      const webhooks = (await idsOfGiven(call, 'webhook', options.webhook))!;
      // Checked first: nothing changes when one of them is unknown.
      for (const webhookId of webhooks) await call('showWebhook', { id: webhookId });
      const input = {
        ...(options.filter !== undefined && { filter: options.filter || null }),
        ...(options.orderBy !== undefined && { order_by: options.orderBy || null }),
      };
      let agent: Agent | undefined;
      for (const innerId of webhooks) agent = await call('setSubscription', { id, innerId, input });
      return agent!;
    },
    text: (_, { key }) => `${key}: subscribed.\n`,
  }),

  row<{ webhook: string[] }>()({
    name: 'unsubscribe',
    description: 'unsubscribe an agent from webhooks; its deliveries are kept',
    target,
    required: [webhook],
    run: async (call, { id, options }) => {
      let agent: Agent | undefined;
      for (const innerId of (await idsOfGiven(call, 'webhook', options.webhook))!)
        agent = await call('endSubscription', { id, innerId });
      return agent!;
    },
    text: (_, { key }) => `${key}: unsubscribed.\n`,
  }),

  row()({
    name: 'pause',
    description: 'let its claims wait as if there were no delivery; leases go on',
    target,
    run: (call, { id }) => call('updateAgent', { id, input: { paused: true } }),
    text: ({ id }, { key }) => `${key}: paused. Its deliveries wait until: ${weirCommand()} agent resume ${id}\n`,
  }),

  act(target, 'resume', 'end the pause of an agent', 'updateAgent', 'resumed', { paused: false }),

  row<{ overlap: number }>()({
    name: 'rotate',
    description: 'replace the credential and print the new one, once',
    target,
    asks: 'rotateAgent',
    options: [
      ['--overlap <seconds>', 'how long the old credential and its sessions stay valid', wholeNumber(undefined, 0), 0],
    ],
    run: (call, { id, options: { overlap } }) => call('rotateAgent', { id, input: { overlap_seconds: overlap } }),
    text: (agent, { key }) => {
      const until = agent.previous_credential_expires_at;
      const old =
        until === null ? 'the old one and all sessions are invalid' : `the old one stays valid until ${until}`;
      return `${key}: credential rotated; ${old}.\n${credentialText(agent)}`;
    },
  }),

  act(
    target,
    'revoke',
    'revoke its credential and sessions permanently; its deliveries are kept',
    'revokeAgent',
    'revoked',
  ),
];

/** Opens the file first: a credential that cannot be written is lost. */
async function createWithFile(path: string, create: () => Promise<CreatedAgent>): Promise<CreatedAgent> {
  const file = await open(path, 'wx', 0o600).catch(({ code, message }: NodeJS.ErrnoException) => {
    throw new CommandError(code === 'EEXIST' ? `${path} exists already: name another file` : message);
  });
  try {
    const agent = await create();
    await file.writeFile(`${agent.credential}\n`).catch(({ message }: Error) => {
      throw new CommandError(
        `The agent ${agent.name} was created, but its credential could not be written to ${path}: ${message}. For another one: ${weirCommand()} agent rotate ${agent.id}`,
      );
    });
    return agent;
  } catch (error) {
    await rm(path);
    throw error;
  } finally {
    await file.close();
  }
}

function credentialText({ credential }: { credential: string }): string {
  return `  Credential  ${credential}   (shown once)\n`;
}

async function withActivity<One extends { id: string }>(call: Call, agents: readonly One[]) {
  const found = new Map<string, Activity>();
  for (let from = 0; from < agents.length; from += IDS_MAX) {
    const ids = agents.slice(from, from + IDS_MAX).map(({ id }) => id);
    const { items } = await call('listAgentActivity', { query: { agent_ids: ids.join(',') } });
    for (const one of items) found.set(one.agent_id, one);
  }
  return agents.map((agent) => ({ ...agent, activity: found.get(agent.id) }));
}

function agentText(
  agent: Agent & { activity: Activity | undefined },
  webhooks: BodyOf<'listAgentWebhooks'>['items'],
): string {
  const { last_seen_from, previous_credential_used_at, waiting_since, dead, filters } = agent.activity!;
  const until = agent.previous_credential_expires_at;
  const text = membersText({
    Name: agent.name,
    State: stateOf(agent),
    'Max leased': limitOf(agent),
    Webhooks: `${agent.webhooks}, ${agent.filters} with a filter`,
    'Last seen': `${seenOf(agent)}${last_seen_from === null ? '' : ` from ${last_seen_from}`}`,
    ...(until !== null && { 'Old credential': `until ${until}, last used ${previous_credential_used_at ?? NEVER}` }),
    'Oldest pending': waiting_since ?? 'none',
    'Dead letters': dead,
    Created: agent.created_at,
  });
  if (webhooks.length === 0) return `${text}\n${NO_WEBHOOKS}\n`;
  const failuresOf = (webhook: { webhook_id: string }) =>
    filters.find(({ webhook_id }) => webhook_id === webhook.webhook_id)?.failures ?? 0;
  const left = agent.webhooks - webhooks.length;
  const more = left > 0 ? `and ${left} more; see: ${weirCommand()} agent webhooks ${agent.id}\n` : '';
  const columns = ['WEBHOOK', 'NAME', 'FAILURES', 'FILTER'];
  return `${text}\n${itemsTable(columns, ['webhook_id', 'name', failuresOf, ['filter', 'none']], webhooks)}${more}`;
}

function stateOf({ revoked, paused, temporary }: Pick<Agent, 'revoked' | 'paused' | 'temporary'>): string {
  return revoked ? 'revoked' : paused ? 'paused' : temporary ? 'temporary' : 'active';
}

function seenOf({ activity }: { activity: Activity | undefined }): string {
  return activity?.last_seen_at ?? NEVER;
}

function limitOf({ max_leased }: Pick<Agent, 'max_leased'>): string {
  return max_leased === null ? 'no limit' : String(max_leased);
}
