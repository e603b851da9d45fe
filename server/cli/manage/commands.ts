/** The management commands: each is a table of rows, which call operations of the API. */
import { type CommandEntry, type Define, entry } from '../command/program.ts';
import type { OpenConnection } from './call.ts';
import type { Row } from './row.ts';

/** Name, description, and the module with the rows, which is loaded when the command is chosen; in the order of `weir --help`. */
const resources: readonly (readonly [string, string, () => Promise<{ rows: readonly Row[] }>])[] = [
  ['webhook', 'create and manage webhooks', () => import('./resources/webhook.ts')],
  ['agent', 'create and manage agents, the programs that claim deliveries', () => import('./resources/agent.ts')],
  ['token', 'create and manage API tokens of users', () => import('./resources/token.ts')],
  ['user', 'create and manage users', () => import('./resources/user.ts')],
  ['event', 'show stored events, and deliver them to agents again', () => import('./resources/event.ts')],
  ['rejection', 'show rejections, and verify them again', () => import('./resources/rejection.ts')],
  ['filter', 'try filters of subscriptions', () => import('./resources/filter.ts')],
  ['audit', 'show and verify the audit log', () => import('./resources/audit.ts')],
  ['delivery', 'show deliveries, replay finished ones, and dismiss dead ones', () => import('./resources/delivery.ts')],
  ['issue', 'show what needs a person, assign it, and snooze it', () => import('./resources/issue.ts')],
  [
    'alert',
    'show alerts, and send a test alert',
    async () => ({ rows: (await import('./resources/issue.ts')).alertRows }),
  ],
  [
    'history',
    'show how many requests were accepted, rejected and limited, by hour or day (UTC)',
    () => import('./resources/history.ts'),
  ],
  [
    'latency',
    'show how long events take from receipt to commit, claim and acknowledgement, the slowest first',
    async () => ({ rows: (await import('./resources/history.ts')).latencyRows }),
  ],
  [
    'outage',
    'show outages of the database, and what they refused',
    async () => ({ rows: (await import('./resources/history.ts')).outageRows }),
  ],
  ['cell', 'spread webhooks over several Postgres servers', () => import('./resources/cell.ts')],
  [
    'export',
    'print webhooks and agents as a file of configuration, YAML without secrets',
    () => import('./configuration/export.ts'),
  ],
  [
    'apply',
    'make webhooks and agents those of a file of configuration, and show what changes',
    () => import('./configuration/apply.ts'),
  ],
  ['job', 'show and cancel jobs, such as replays of many events', () => import('./resources/event-replay.ts')],
];

/**
 * @param openLocal opens the Weir of this machine; null in the client package, which has no database
 * @param others adds subcommands that work on the Weir of this machine only
 * @returns the commands in the order of `weir --help`
 */
export function managementCommands(
  openLocal: OpenConnection | null,
  others: Readonly<Record<string, () => Promise<Define>>> = {},
): readonly CommandEntry[] {
  return resources.map(([name, description, load]) =>
    entry(name, description, async () => {
      const [{ rows }, { defineRows }, more] = await Promise.all([load(), import('./row.ts'), others[name]?.()]);
      const define: Define = (command, io, whole) => {
        defineRows(command, io, rows, openLocal);
        more?.(command, io, whole);
      };
      return { define };
    }),
  );
}
