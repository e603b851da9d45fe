/** `weir agent list|show`. */
import type { Agents } from '../../api/agents/service.ts';
import type { Database } from '../../db/pool.ts';
import { readAgentActivity } from '../../db/queries/agent-activity.ts';
import type { AgentRecord } from '../../db/queries/agents.ts';
import { readFilters } from '../../db/queries/filter-events.ts';
import { listWebhooks } from '../../db/queries/webhooks.ts';
import { weirCommand } from '../../files/command.ts';
import { visibleLine } from '../../telemetry/visible.ts';
import { CommandError, type CommandIo, printJson, printText, table } from '../io.ts';

const NEVER = 'never';

/** Prints all agents, newest first. */
export async function printAgents(io: CommandIo, agents: Agents, database: Database, json?: boolean): Promise<void> {
  const rows = await agents.list();
  if (json) return printJson(io, { items: rows });
  if (rows.length === 0)
    return printText(io, `No agents yet. Create one: ${weirCommand()} agent add --name ci --webhook ID\n`);
  const ids = rows.map(({ id }) => id);
  const activity = await readAgentActivity(database, ids);
  const seen = new Map(activity.map(({ agent_id, last_seen_at }) => [agent_id, last_seen_at]));
  const cells = rows.map((row) => [
    row.id,
    row.name,
    stateOf(row),
    String(row.webhook_ids.length),
    String(row.subscriptions.filter(({ filter }) => filter !== null).length),
    limitOf(row),
    seen.get(row.id) ?? NEVER,
    row.created_at,
  ]);
  printText(io, table(['ID', 'NAME', 'STATE', 'WEBHOOKS', 'FILTERS', 'MAX LEASED', 'LAST SEEN', 'CREATED'], cells));
}

/** Prints one agent with its subscriptions. Throws CommandError. */
export async function printAgent(
  io: CommandIo,
  agents: Agents,
  database: Database,
  id: string,
  json?: boolean,
): Promise<void> {
  const agent = await agents.find(id);
  if (agent === undefined) throw new CommandError(`no agent has the id ${id}; see: weir agent list`);
  const [[activity], filters, webhooks] = await Promise.all([
    readAgentActivity(database, [id]),
    readFilters(database, [id], Number.MAX_SAFE_INTEGER),
    listWebhooks(database, { agentId: id, enabled: null, contains: null }, null, null),
  ]);
  const { last_seen_at, last_seen_from, waiting_since, dead } = activity!;
  if (json) return printJson(io, { ...agent, last_seen_at, last_seen_from, waiting_since, dead });
  const facts = [
    ['Name', agent.name],
    ['State', stateOf(agent)],
    ['Max leased', limitOf(agent)],
    ['Last seen', last_seen_at === null ? NEVER : `${last_seen_at} from ${last_seen_from}`],
    ['Oldest pending', waiting_since ?? 'none'],
    ['Dead letters', String(dead)],
    ['Created', agent.created_at],
  ] as const;
  printText(io, facts.map(([name, value]) => `${name.padEnd(16)}${visibleLine(value)}\n`).join(''));
  if (agent.subscriptions.length === 0) return printText(io, '\nNo subscriptions. See: weir agent subscribe\n');
  const rows = agent.subscriptions.map(({ webhook_id, filter }) => {
    const name = webhooks.find((webhook) => webhook.id === webhook_id)?.name ?? '';
    const failures = filters.find((one) => one.webhookId === webhook_id)?.failures ?? 0;
    return [webhook_id, name, String(failures), filter ?? 'none'];
  });
  printText(io, `\n${table(['WEBHOOK', 'NAME', 'FAILURES', 'FILTER'], rows)}`);
}

function stateOf({ revoked, temporary }: AgentRecord): string {
  return revoked ? 'revoked' : temporary ? 'temporary' : 'active';
}

function limitOf({ max_leased }: AgentRecord): string {
  return max_leased === null ? 'no limit' : String(max_leased);
}
