import type { Command } from 'commander';
import { describeAlert } from '../alerts/describe.ts';
import { testAlert } from '../alerts/test-alert.ts';
import { commandActor } from '../audit/actor.ts';
import { listAlerts } from '../db/queries/alerts.ts';
import { wholeNumber } from './arguments.ts';
import { CommandError, type CommandIo, printJson, printText, table } from './io.ts';
import { withDatabase } from './session.ts';

/** Alerts of one list. */
const LISTED_MAX = 200;

/** `weir alert list|test`. */
export function defineAlert(command: Command, io: CommandIo): void {
  command
    .command('list')
    .description('show the newest alerts, active and ended')
    .option('--active', 'only alerts that are active now')
    .option('--limit <alerts>', `maximum number, at most ${LISTED_MAX}`, wholeNumber('--limit', LISTED_MAX), 20)
    .option('--json', 'print one JSON document')
    .action(({ active, limit, json }: { active?: boolean; limit: number; json?: boolean }) =>
      withDatabase(io, async ({ database, settings }) => {
        const rows = await listAlerts(database, active ?? null, null, limit);
        const alerts = rows.map((row) => ({ ...describeAlert(row, settings.PUBLIC_URL), requests: row.requests }));
        if (json) return printJson(io, { items: alerts });
        if (alerts.length === 0) return printText(io, active ? 'No alert is active.\n' : 'No alerts.\n');
        const lines = alerts.map(({ began_at, ended_at, condition, requests, text }) => {
          const sent = requests.map(({ type, state }) => `${type.replace('alert.', '')}: ${state}`).join(', ');
          return [began_at, ended_at ?? 'active', condition, sent || '-', text];
        });
        printText(io, table(['BEGAN', 'ENDED', 'CONDITION', 'REQUESTS', 'ALERT'], lines));
      }),
    );
  command
    .command('test')
    .description('send a test alert to ALERT_URL; exit code 1 when it does not arrive')
    .option('--json', 'print one JSON document')
    .action(({ json }: { json?: boolean }) =>
      withDatabase(io, async ({ database, settings }) => {
        const tested = await testAlert(database, settings, commandActor());
        if (tested === null) throw new CommandError('ALERT_URL is unset; set it to the URL that receives alerts');
        const { sent, status, duration_ms, error, fix } = tested;
        if (json) printJson(io, tested);
        else if (sent) printText(io, `Sent: answered ${status} after ${Math.round(duration_ms)} ms.\n`);
        if (!sent) throw new CommandError(json ? '' : `${error}; ${fix}`);
      }),
    );
}
