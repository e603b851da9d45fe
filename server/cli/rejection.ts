import { Command } from 'commander';
import { describeRejection } from '../api/rejections/schema.ts';
import { commandActor } from '../audit/actor.ts';
import { isTimedId } from '../db/ids.ts';
import { findRejection, listRejections } from '../db/queries/rejections.ts';
import { type Accepted, type Recheck, Rejections } from '../rejections/recheck.ts';
import { derivedKeys } from '../secrets/keys.ts';
import { diagnose } from '../signatures/diagnosis/diagnose.ts';
import { positive, uuid } from './arguments.ts';
import { CommandError, type CommandIo, printBytes, printJson, printText, table } from './io.ts';
import { type CommandSession, withDatabase } from './session.ts';

interface Output {
  json?: boolean;
}

/** `weir rejection list|show|recheck|accept`. */
export function rejectionCommand(io: CommandIo): Command {
  const command = new Command('rejection').description('show rejections, and verify them again');

  command
    .command('list')
    .description('show the newest rejections and their reasons')
    .option('--webhook <id>', 'of this webhook', uuid)
    .option('--limit <rejections>', 'maximum number', positive, 20)
    .option('--json', 'print one JSON document')
    .action(({ webhook, limit, json }: Output & { webhook?: string; limit: number }) =>
      withDatabase(io, async ({ database }) => {
        const rows = await listRejections(database, { webhookId: webhook ?? null, reason: null }, null, limit);
        if (json) printJson(io, { items: rows.map(describeRejection) });
        else if (rows.length === 0) printText(io, 'No rejections.\n');
        else
          printText(
            io,
            table(
              ['ID', 'WEBHOOK', 'RECEIVED', 'FROM', 'BYTES', 'REASON'],
              rows.map((row) => [
                row.id,
                row.webhook_id,
                row.received_at,
                row.source_ip,
                String(row.bytes),
                row.reason,
              ]),
            ),
          );
      }),
    );

  command
    .command('show')
    .description('show one rejection, with control characters escaped, and how to fix its cause')
    .argument('<id>', 'id of the rejection', uuid)
    .option('--body', 'write only the body, byte for byte')
    .option('--json', 'print one JSON document')
    .action((id: string, { body, json }: Output & { body?: boolean }) =>
      withDatabase(io, async ({ database }) => {
        const found = await findRejection(database.query, timed(id));
        if (found === undefined) throw unknown(id);
        if (body && found.body === null) throw withoutBody(id);
        if (body) return printBytes(io, found.body!);
        const { headers, body: bytes } = found;
        const described = describeRejection(found);
        if (json) return printJson(io, { ...described, body_base64: bytes?.toString('base64') ?? null });
        const signatures = found.signatures.map(({ name, shape }) => `${name}: (${shape})\n`).join('');
        const text = bytes?.toString('utf8') ?? '(the body was not kept)';
        const fixes = described.fixes.map(({ title }) => `Fix: ${title}\n`).join('');
        printText(io, `${found.reason}: ${described.hint}\n${fixes}\n${headers}\n${signatures}\n${text}\n`);
      }),
    );

  command
    .command('recheck')
    .description('verify one with the current secret and signature header; exit code 1 when it does not verify')
    .argument('<id>', 'id of the rejection', uuid)
    .option('--json', 'print one JSON document')
    .action((id: string, { json }: Output) =>
      withDatabase(io, async (session) => {
        const outcome = await rejectionsOf(session).recheck(timed(id), commandActor());
        if (outcome.kind !== 'done') throw refusal(id, outcome.kind);
        const { verified, reason, hint } = describeRejection(outcome.rejection).last_check!;
        if (json) printJson(io, { id, verified, reason, hint });
        else printText(io, `${id}: ${reason}. ${hint}\n`);
        // The check has already printed its result.
        if (!verified) throw new CommandError('');
      }),
    );

  command
    .command('accept')
    .description('store a rejection that now verifies as an event, at most once')
    .argument('<id>', 'id of the rejection', uuid)
    .option('--json', 'print one JSON document')
    .action((id: string, { json }: Output) =>
      withDatabase(io, async (session) => {
        const outcome = await rejectionsOf(session).accept(timed(id), commandActor());
        if (!('eventId' in outcome)) throw refusal(id, outcome.kind);
        if (json) printJson(io, { id, event_id: outcome.eventId });
        else printText(io, `${id}: ${outcome.kind === 'stored' ? '' : 'already '}stored as event ${outcome.eventId}\n`);
      }),
    );
  return command;
}

function rejectionsOf({ database, keys, settings }: CommandSession): Rejections {
  return new Rejections({
    database,
    keys: derivedKeys(keys, 'webhook-secrets'),
    retentionDays: settings.RETENTION_DAYS,
    // A command serves no other requests, so the check needs no thread.
    diagnose: async (requests) => requests.map((request) => ({ diagnosis: diagnose(request) })),
  });
}

/** Throws for an id that Postgres would not accept. */
function timed(id: string): string {
  if (!isTimedId(id)) throw unknown(id);
  return id;
}

type Refusal = Exclude<Recheck | Accepted, { kind: 'done' | 'stored' | 'known' }>['kind'];

function refusal(id: string, kind: Refusal): CommandError {
  switch (kind) {
    case 'unknown':
      return unknown(id);
    case 'without_body':
      return withoutBody(id);
    case 'unavailable':
      return new CommandError('the secret of its webhook cannot be decrypted with SECRETS_KEY; see: weir doctor');
    case 'disabled':
      return new CommandError('its webhook is disabled; see: weir webhook enable');
    case 'of_batch':
      return new CommandError(`${id} was a batch with one event a line: have the sender repeat it`);
    case 'unverified':
      return new CommandError(`${id} does not verify; see: weir rejection recheck ${id}`);
  }
}

function unknown(id: string): CommandError {
  return new CommandError(`no rejection has the id ${id}; see: weir rejection list`);
}

function withoutBody(id: string): CommandError {
  return new CommandError(
    `the body of ${id} was not kept: it was larger than REJECTION_BODY_BYTES_MAX, or it contained the secret`,
  );
}
