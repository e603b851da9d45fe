import { Command } from 'commander';
import { readTableBytes, readWebhookUsage } from '../db/queries/webhook-usage.ts';
import { bytes } from '../pages/show.ts';
import { type CommandIo, printJson, printText, table } from './io.ts';
import { withDatabase } from './session.ts';

/** `weir webhook usage`: which webhooks fill the disk. */
export function usageCommand(io: CommandIo): Command {
  return new Command('usage')
    .description('show how many events each webhook has stored, and how many bytes; most first')
    .option('--json', 'print one JSON document')
    .action(({ json }: { json?: boolean }) =>
      withDatabase(io, async ({ database, settings }) => {
        const days = { retentionDays: settings.RETENTION_DAYS, nowMs: Date.now() };
        const [items, tables] = await Promise.all([readWebhookUsage(database, null, days), readTableBytes(database)]);
        if (json) return printJson(io, { items, tables });
        printText(
          io,
          table(
            ['WEBHOOK', 'EVENTS', 'BYTES OF BODIES', 'OLDEST', 'ID'],
            items.map(({ webhook_id, name, ...use }) => [
              name,
              String(use.events),
              bytes(use.bytes),
              use.oldest_at ?? 'none',
              webhook_id,
            ]),
          ),
        );
        printText(
          io,
          `On disk, with indexes: events ${bytes(tables.events)}, deliveries ${bytes(tables.deliveries)}.\n`,
        );
      }),
    );
}
