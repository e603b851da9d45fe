import { type Command, InvalidArgumentError } from 'commander';
import type { z } from 'zod';
import { auditFilterOf, auditFilters, auditHash, describeEntry } from '../api/audit/operations.ts';
import { verifyAudit } from '../audit/verify.ts';
import { listAudit } from '../db/queries/audit.ts';
import { auditEntrySchema } from '../resources/audit.ts';
import { positive } from './arguments.ts';
import { CommandError, type CommandIo, printJson, printText, table } from './io.ts';
import { withDatabase } from './session.ts';

interface ListOptions {
  action?: string;
  actor?: string;
  target?: string;
  from?: string;
  to?: string;
  limit: number;
  json?: boolean;
}

/** `weir audit list|verify`. */
export function defineAudit(command: Command, io: CommandIo): void {
  command
    .command('list')
    .description('show the newest entries')
    .option('--action <action>', 'actions that start with this, e.g. token. or webhook.create', by(auditFilters.action))
    .option('--actor <id>', 'by this user', by(auditFilters.actor_id))
    .option('--target <id>', 'on this target', by(auditFilters.target_id))
    .option('--from <time>', 'at or after this time, e.g. 2030-01-31T12:00:00Z', by(auditFilters.from))
    .option('--to <time>', 'before this time', by(auditFilters.to))
    .option('--limit <entries>', 'maximum number', positive, 20)
    .option('--json', 'print one JSON document')
    .action(({ action, actor, target, from, to, limit, json }: ListOptions) =>
      withDatabase(io, async ({ database }) => {
        const filter = auditFilterOf({ action, actor_id: actor, target_id: target, from, to });
        const items = (await listAudit(database, filter, null, limit)).map((row) =>
          auditEntrySchema.parse(describeEntry(row)),
        );
        if (json) printJson(io, { items });
        else if (items.length === 0) printText(io, 'No matching entries.\n');
        else printText(io, describe(items));
      }),
    );

  command
    .command('verify')
    .description('recompute every hash of the log; exit code 1 when the log is not valid')
    .option(
      '--head <hash>',
      'hash of an entry that the chain must contain, e.g. of the last audit_head in the log',
      by(auditHash),
    )
    .option('--json', 'print one JSON document')
    .action(({ head, json }: { head?: string; json?: boolean }) =>
      withDatabase(io, async ({ database }) => {
        const verdict = await verifyAudit(database, head ?? null);
        if (json) printJson(io, verdict);
        else if (verdict.intact)
          printText(
            io,
            `${verdict.entries === 1 ? '1 entry is valid' : `All ${verdict.entries} entries are valid`}.${verdict.head === null ? '' : `\n  Head  ${verdict.head.hash}`}\n`,
          );
        if (verdict.intact) return;
        throw new CommandError(json ? '' : `${verdict.reason} Valid entries before it: ${verdict.entries}.`);
      }),
    );
}

function describe(items: readonly z.output<typeof auditEntrySchema>[]): string {
  return table(
    ['NUMBER', 'AT', 'WHO', 'FROM', 'ACTION', 'TARGET'],
    items.map(({ number, at, actor, action, target }) => [
      String(number),
      at ?? '?',
      actor === null ? '?' : `${actor.kind} ${actor.name}`,
      actor?.address ?? '',
      action ?? '?',
      target === null ? '?' : `${target.name}${target.id === null ? '' : ` (${target.id})`}`,
    ]),
  );
}

/** Returns a parser that accepts the same values as the API parameter. */
function by(schema: z.ZodType<string | undefined>): (text: string) => string {
  return (text) => {
    const result = schema.safeParse(text);
    if (!result.success) throw new InvalidArgumentError(result.error.issues[0]!.message);
    return result.data!;
  };
}
