/** `weir webhook usage`: which webhooks fill the disk. */

import { table } from '../../../base/command/io.ts';
import { bytes } from '../../../pages/show.ts';
import { row } from '../row.ts';

export const usageRow = row()({
  name: 'usage',
  description: 'show how many events each webhook has stored, and how many bytes; most first',
  run: (call) => call('listWebhookUsage'),
  text: ({ items, tables }) => {
    const rows = items.map(({ webhook_id, name, ...use }) => [
      name,
      String(use.events),
      bytes(use.bytes),
      use.oldest_at ?? 'none',
      webhook_id,
    ]);
    const size = `On disk, with indexes: events ${bytes(tables.events)}, deliveries ${bytes(tables.deliveries)}.\n`;
    return table(['WEBHOOK', 'EVENTS', 'BYTES OF BODIES', 'OLDEST', 'ID'], rows) + size;
  },
});
