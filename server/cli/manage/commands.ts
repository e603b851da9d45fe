/** The management commands: each is a table of rows, which call operations of the API. */
import type { CommandEntry, Define } from '../command/program.ts';
import type { OpenConnection } from './call.ts';
import type { Row } from './row.ts';

/**
 * @param openLocal opens the Weir of this machine; null in the client package, which has no database
 * @param others adds subcommands that work on the Weir of this machine only
 * @returns the commands in the order of `weir --help`
 */
export function managementCommands(
  openLocal: OpenConnection | null,
  others: Readonly<Record<string, () => Promise<Define>>> = {},
): readonly CommandEntry[] {
  /** Loads the table when the command is chosen. */
  const entry = (name: string, description: string, load: () => Promise<readonly Row[]>): CommandEntry => ({
    name,
    description,
    load: async (): Promise<Define> => {
      const [rows, { defineRows }, more] = await Promise.all([load(), import('./row.ts'), others[name]?.()]);
      return (command, io, whole) => {
        defineRows(command, io, rows, openLocal);
        more?.(command, io, whole);
      };
    },
  });
  return [
    entry('webhook', 'create and manage webhooks', async () => (await import('./resources/webhook.ts')).webhookRows),
    entry(
      'agent',
      'create and manage agents, the programs that claim deliveries',
      async () => (await import('./resources/agent.ts')).agentRows,
    ),
    entry(
      'token',
      'create and manage API tokens of users',
      async () => (await import('./resources/token.ts')).tokenRows,
    ),
    entry('user', 'create and manage users', async () => (await import('./resources/user.ts')).userRows),
    entry(
      'event',
      'show stored events, and deliver them to agents again',
      async () => (await import('./resources/event.ts')).eventRows,
    ),
    entry(
      'rejection',
      'show rejections, and verify them again',
      async () => (await import('./resources/rejection.ts')).rejectionRows,
    ),
    entry('filter', 'try filters of subscriptions', async () => (await import('./resources/filter.ts')).filterRows),
    entry('audit', 'show and verify the audit log', async () => (await import('./resources/audit.ts')).auditRows),
    entry(
      'delivery',
      'show deliveries, replay finished ones, and dismiss dead ones',
      async () => (await import('./resources/delivery.ts')).deliveryRows,
    ),
    entry(
      'issue',
      'show what needs a person, assign it, and snooze it',
      async () => (await import('./resources/issue.ts')).issueRows,
    ),
    entry('alert', 'show alerts, and send a test alert', async () => (await import('./resources/alert.ts')).alertRows),
    entry(
      'history',
      'show how many requests were accepted, rejected and limited, by hour or day (UTC)',
      async () => (await import('./resources/history.ts')).historyRows,
    ),
    entry(
      'latency',
      'show how long events take from receipt to commit, claim and acknowledgement, the slowest first',
      async () => (await import('./resources/latency.ts')).latencyRows,
    ),
    entry(
      'outage',
      'show outages of the database, and what they refused',
      async () => (await import('./resources/outage.ts')).outageRows,
    ),
    entry(
      'cell',
      'spread webhooks over several Postgres servers',
      async () => (await import('./resources/cell.ts')).cellRows,
    ),
    entry(
      'export',
      'print webhooks and agents as a file of configuration, YAML without secrets',
      async () => (await import('./resources/configuration.ts')).exportRows,
    ),
    entry(
      'apply',
      'make webhooks and agents those of a file of configuration, and show what changes',
      async () => (await import('./resources/configuration.ts')).applyRows,
    ),
    entry(
      'job',
      'show and cancel jobs, such as replays of many events',
      async () => (await import('./resources/job.ts')).jobRows,
    ),
  ];
}
