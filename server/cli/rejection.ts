import type { Command } from 'commander';
import { checked } from '../api/input.ts';
import { fixRejection } from '../api/rejections/fix.ts';
import { describeRejection, fixInput } from '../api/rejections/schema.ts';
import { commandActor } from '../audit/actor.ts';
import { Changes } from '../db/announce.ts';
import { isTimedId } from '../db/ids.ts';
import { findRejection, listRejections } from '../db/queries/rejections.ts';
import { problems } from '../errors.ts';
import type { Problem } from '../http/problem.ts';
import { type Accepted, type Recheck, Rejections } from '../rejections/recheck.ts';
import { derivedKeys } from '../secrets/keys.ts';
import { diagnose } from '../signatures/diagnosis/diagnose.ts';
import { positive, uuid } from './arguments.ts';
import { CommandError, type CommandIo, printBytes, printJson, printText, table } from './io.ts';
import { type CommandSession, withDatabase, withInput } from './session.ts';
import { givenSecret } from './webhook.ts';

interface Output {
  json?: boolean;
}

interface FixOptions extends Output {
  useHeader?: boolean;
  scheme?: string;
  publicKey?: string;
  secret?: string;
  secretStdin?: boolean;
}

/** `weir rejection list|show|fix|recheck|accept`. */
export function defineRejection(command: Command, io: CommandIo): void {
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
    .command('fix')
    .description('change the webhook so that the rejection verifies, and verify the similar ones again')
    .argument('<id>', 'id of the rejection', uuid)
    .option('--use-header', 'read the signature from the header of the rejection')
    .option('--scheme <name>', 'verify by this scheme, with the secret or key that follows')
    .option('--public-key <key>', 'of the sender, for schemes that have one')
    .option('--secret <secret>', "the sender's secret (visible to other users of this machine; better: --secret-stdin)")
    .option('--secret-stdin', 'read the secret from standard input')
    .option('--json', 'print one JSON document')
    .action((id: string, options: FixOptions) =>
      withDatabase(io, (session) => withInput(() => fix(io, session, timed(id), options))),
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
}

async function fix(io: CommandIo, session: CommandSession, id: string, options: FixOptions): Promise<void> {
  const { useHeader, scheme: signature_scheme, publicKey: public_key, json } = options;
  const secret = await givenSecret(io, options);
  if (!useHeader && signature_scheme === undefined && secret === null)
    throw new CommandError('give --use-header, --scheme or --secret-stdin; see: weir rejection show', 2);
  const input = useHeader
    ? { kind: 'use_header', ...(secret === null ? {} : { secret }), signature_scheme, public_key }
    : signature_scheme === undefined
      ? { kind: 'set_secret', secret, public_key }
      : { kind: 'set_scheme', signature_scheme, secret, public_key };
  const given = Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined));
  const { database, conninfo, keys } = session;
  const parts = { database, changes: new Changes(conninfo), key: derivedKeys(keys, 'webhook-secrets')[0]! };
  const outcome = await fixRejection(parts, rejectionsOf(session), id, checked(fixInput, given), commandActor());
  if (outcome.kind === 'problem') throw refusedFix(id, outcome);
  if (json) return printJson(io, outcome.body);
  const { webhook_id, checked: again, verified } = outcome.body;
  printText(io, `Webhook ${webhook_id} changed: ${verified} of ${again} similar rejections verify.\n`);
}

function refusedFix(id: string, { code, detail, members }: Problem): CommandError {
  if (code === 'rejection_unknown') return unknown(id);
  const [first] = (members?.errors ?? []) as { detail: string }[];
  return new CommandError(first?.detail ?? detail ?? problems[code].detail);
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
