/** `weir export` and `weir apply`: webhooks and agents as a file. */

import { printLine } from '../../../base/command/io.ts';
import { type Applied, type ApplyOptions, appliedText, applyFile } from '../configuration/apply.ts';
import { documentOf, yamlOf } from '../configuration/file.ts';
import { readCurrent, unverifiedOf } from '../configuration/plan.ts';
import { type Row, row } from '../row.ts';

export const exportRows: readonly Row[] = [
  row<{ json?: boolean }>()({
    name: '',
    description: '',
    run: async (call, { io, connection }) => {
      const current = await readCurrent(call);
      const document = documentOf(current);
      const webhooks = [...current.webhooks.values()].map(({ id, members }) => ({ ...members, id }));
      const unverified = unverifiedOf(current, webhooks);
      if (unverified.length > 0)
        printLine(
          io,
          `weir: keep the file secret: its ids are all that protects webhooks that check no signature: ${unverified
            .map(({ name }) => name)
            .join(', ')}`,
        );
      return { document, yaml: Buffer.from(yamlOf(document, current, connection.apiUrl)) };
    },
    json: ({ document }) => document,
    text: ({ yaml }) => yaml,
  }),
];

export const applyRows: readonly Row[] = [
  row<ApplyOptions>()({
    name: '',
    description: '',
    asks: 'deleteWebhook',
    options: [
      ['--dry-run', 'show the changes, and make none'],
      ['--prune', 'delete webhooks and revoke agents that the file does not have; asks first'],
      ['--unverified', 'also make changes after which a webhook no longer checks signatures'],
    ],
    more: (command) =>
      command.requiredOption('-f, --file <file>', 'the configuration, YAML or JSON; - is standard input'),
    // Not the calls of the row: the command asks about all deletions together.
    run: (_call, { io, connection, options }): Promise<Applied> => applyFile(io, connection.call, options),
    json: ({ applied, changes }) => ({
      applied,
      changes: changes.map(({ before: _before, ...change }) => change),
    }),
    text: (applied) => appliedText(applied),
  }),
];
