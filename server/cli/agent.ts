/** `weir agent add|update|list|show|subscribe|unsubscribe|rotate|revoke`. */
import { weirCommand } from '../files/command.ts';
import { visibleLine } from '../telemetry/visible.ts';
import { nullForNone, wholeNumberOrNone } from './arguments.ts';
import { CommandError, table } from './io.ts';
import type { BodyOf, Call } from './manage/call.ts';
import { idsOfGiven, readList } from './manage/lists.ts';
import { type OptionRow, type Row, repeated, row } from './manage/row.ts';

type Agent = BodyOf<'showAgent'>;
type Activity = BodyOf<'listAgentActivity'>['items'][number];

interface FieldOptions {
  name?: string;
  maxLeased?: number | 'none';
}

const NEVER = 'never';
/** Ids of one request: a URL holds a few kilobytes. */
const IDS_MAX = 50;

const target = 'agent';
const name: OptionRow = ['--name <name>', 'display name'];
const maxLeased: OptionRow = [
  '--max-leased <count>',
  'limit on its deliveries under lease at a time; none: no limit',
  wholeNumberOrNone,
];
const webhook = ['--webhook <webhook>', 'this webhook, by id or name; may be repeated', repeated] as const;

export const agentRows: readonly Row[] = [
  row<{ name: string; webhook?: string[]; maxLeased?: number | 'none' }>()({
    name: 'add',
    description: 'create an agent and print its credential, once',
    options: [
      ['--webhook <webhook>', 'subscribe it to this webhook, by id or name; may be repeated', repeated],
      maxLeased,
    ],
    more: (command) => command.requiredOption(name[0], name[1]),
    run: async (call, { options }) => {
      const webhook_ids = await idsOfGiven(call, 'webhook', options.webhook);
      return call('createAgent', {
        input: { name: options.name, webhook_ids, max_leased: nullForNone(options.maxLeased) },
      });
    },
    text: (agent, { connection: { clientCommand, apiUrl } }) =>
      `Agent ${agent.name} created.\n  ID          ${agent.id}\n${credentialText(agent)}` +
      `\nStore the credential in a file, then:  ${clientCommand} consume ${apiUrl} --credential-file FILE\n`,
  }),

  row<FieldOptions>()({
    name: 'update',
    description: 'change the name or the limit of an agent',
    target,
    options: [name, maxLeased],
    check: (_id, options) => {
      if (options.name === undefined && options.maxLeased === undefined)
        throw new CommandError('nothing to change: give --name or --max-leased', 2);
    },
    run: (call, { id, options }) =>
      call('updateAgent', { id, input: { name: options.name, max_leased: nullForNone(options.maxLeased) } }),
    text: ({ id }) => `${id}: updated.\n`,
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
      cells: ({ agent, activity }) => [
        agent.id,
        agent.name,
        stateOf(agent),
        String(agent.webhook_ids.length),
        String(agent.subscriptions.filter(({ filter }) => filter !== null).length),
        limitOf(agent),
        activity?.last_seen_at ?? NEVER,
        agent.created_at,
      ],
      whenEmpty: () => `No agents yet. Create one: ${weirCommand()} agent add --name ci --webhook ID`,
    },
  }),

  row<{ json?: boolean }>()({
    name: 'show',
    description: 'show one agent with its subscriptions and their filters',
    target,
    run: async (call, { id, options: { json } }) => {
      const agent = await call('showAgent', { id });
      return { agent, text: json ? '' : await agentText(call, agent) };
    },
    json: ({ agent }) => agent,
    text: ({ text }) => text,
  }),

  row<{ webhook: string[]; filter?: string }>()({
    name: 'subscribe',
    description: 'subscribe an agent to webhooks; their new events become its deliveries',
    target,
    options: [
      ['--filter <expression>', "deliver only events for which this CEL expression is true; '' removes the filter"],
    ],
    more: (command) => command.requiredOption(...webhook),
    run: async (call, { id, options }) => {
      const webhooks = (await idsOfGiven(call, 'webhook', options.webhook))!;
      // Nothing changes when one of them is unknown.
      for (const webhookId of webhooks) await call('showWebhook', { id: webhookId });
      let agent: Agent = await call('showAgent', { id });
      for (const innerId of webhooks) {
        const isNew = !agent.webhook_ids.includes(innerId);
        if (isNew || options.filter !== undefined)
          agent = await call('setSubscription', { id, innerId, input: { filter: options.filter || null } });
      }
      return agent;
    },
    text: ({ id }) => `${id}: subscribed.\n`,
  }),

  row<{ webhook: string[] }>()({
    name: 'unsubscribe',
    description: 'unsubscribe an agent from webhooks; its deliveries are kept',
    target,
    more: (command) => command.requiredOption(...webhook),
    run: async (call, { id, options }) => {
      const webhooks = (await idsOfGiven(call, 'webhook', options.webhook))!;
      const agent = await call('showAgent', { id });
      const webhook_ids = agent.webhook_ids.filter((one) => !webhooks.includes(one));
      return call('updateAgent', { id, input: { webhook_ids }, representation: agent });
    },
    text: ({ id }) => `${id}: unsubscribed.\n`,
  }),

  row()({
    name: 'rotate',
    description: 'replace the credential and print the new one, once; all sessions end',
    target,
    run: (call, { id }) => call('rotateAgent', { id }),
    text: (agent) =>
      `${agent.id}: credential rotated; the old one and all sessions are invalid.\n${credentialText(agent)}`,
  }),

  row()({
    name: 'revoke',
    description: 'revoke its credential and sessions permanently; its deliveries are kept',
    target,
    removes: true,
    run: (call, { id }) => call('revokeAgent', { id }),
    text: (_answer, { id }) => `${id}: revoked.\n`,
  }),
];

function credentialText({ credential }: { credential: string }): string {
  return `  Credential  ${credential}   (shown once)\n`;
}

async function withActivity(call: Call, agents: readonly Agent[]): Promise<{ agent: Agent; activity?: Activity }[]> {
  const found = new Map<string, Activity>();
  for (let from = 0; from < agents.length; from += IDS_MAX) {
    const ids = agents.slice(from, from + IDS_MAX).map(({ id }) => id);
    const { items } = await call('listAgentActivity', { query: { agent_ids: ids.join(',') } });
    for (const one of items) found.set(one.agent_id, one);
  }
  return agents.map((agent) => ({ agent, activity: found.get(agent.id)! }));
}

async function agentText(call: Call, agent: Agent): Promise<string> {
  const [[shown], { items: webhooks }] = await Promise.all([
    withActivity(call, [agent]),
    readList(call, 'listWebhooks'),
  ]);
  const { last_seen_at, last_seen_from, waiting_since, dead, filters } = shown!.activity!;
  const facts = [
    ['Name', agent.name],
    ['State', stateOf(agent)],
    ['Max leased', limitOf(agent)],
    ['Last seen', last_seen_at === null ? NEVER : `${last_seen_at} from ${last_seen_from}`],
    ['Oldest pending', waiting_since ?? 'none'],
    ['Dead letters', String(dead)],
    ['Created', agent.created_at],
  ] as const;
  const text = facts.map(([name, value]) => `${name.padEnd(16)}${visibleLine(value)}\n`).join('');
  if (agent.subscriptions.length === 0) return `${text}\nNo subscriptions. See: weir agent subscribe\n`;
  const rows = agent.subscriptions.map(({ webhook_id, filter }) => {
    const name = webhooks.find(({ id }) => id === webhook_id)?.name ?? '';
    const failures = filters.find((one) => one.webhook_id === webhook_id)?.failures ?? 0;
    return [webhook_id, name, String(failures), filter ?? 'none'];
  });
  return `${text}\n${table(['WEBHOOK', 'NAME', 'FAILURES', 'FILTER'], rows)}`;
}

function stateOf({ revoked, temporary }: Agent): string {
  return revoked ? 'revoked' : temporary ? 'temporary' : 'active';
}

function limitOf({ max_leased }: Agent): string {
  return max_leased === null ? 'no limit' : String(max_leased);
}
