import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Command } from 'commander';
import type { Change } from '../api/change.ts';
import { checked } from '../api/input.ts';
import { describeWebhook } from '../api/webhooks/operations.ts';
import { Webhooks } from '../api/webhooks/service.ts';
import { commandActor } from '../audit/actor.ts';
import { Changes } from '../db/announce.ts';
import type { WebhookRecord } from '../db/queries/webhooks.ts';
import { rotateInput, webhookInput } from '../resources/webhooks.ts';
import { derivedKeys } from '../secrets/keys.ts';
import { CUSTOM, DEFAULT_SCHEME } from '../signatures/presets.ts';
import { visibleLine } from '../telemetry/visible.ts';
import { positive, seconds, uuid, uuids } from './arguments.ts';
import { CommandError, type CommandIo, printJson, printText, table } from './io.ts';
import { type CommandSession, made, withDatabase, withInput } from './session.ts';
import { usageCommand } from './webhook-usage.ts';

interface AddOptions {
  name: string;
  description?: string;
  secret?: string;
  secretStdin?: boolean;
  generateSecret?: boolean;
  scheme?: string;
  schemeFile?: string;
  publicKey?: string;
  verifyToken?: string;
  toleranceSeconds?: number;
  signatureHeader?: string;
  dedupeHeader?: string;
  eventTypeFrom?: string;
  rateLimit?: number;
  maxPayloadBytes?: number;
  retentionDays?: number;
  expectEverySeconds?: number;
  agent?: string[];
  json?: boolean;
}

interface RotateOptions {
  secret?: string;
  secretStdin?: boolean;
  overlapSeconds: number;
  json?: boolean;
}

/** `weir webhook add|list|show|enable|disable|rotate|remove`. */
export function webhookCommand(io: CommandIo): Command {
  const command = new Command('webhook').description('create and manage webhooks');

  command
    .command('add')
    .description('create a webhook')
    .requiredOption('--name <name>', 'display name')
    .option('--description <text>', 'what it is for')
    .option('--secret <secret>', 'signing secret (visible to other users of this machine; better: --secret-stdin)')
    .option('--secret-stdin', 'read the secret from standard input')
    .option('--generate-secret', 'generate a secret and print it, once')
    .option('--scheme <name>', 'how the sender signs, see `weir scheme list`; default: sha256')
    .option('--scheme-file <file>', 'definition of the scheme custom, as JSON')
    .option('--public-key <key>', "the sender's public key (PEM, hex or base64), for schemes that have one")
    .option('--verify-token <token>', 'token of the GET handshake with hub.challenge')
    .option(
      '--tolerance-seconds <seconds>',
      'how far the time of a request may be from the clock; 0: not checked',
      seconds,
    )
    .option('--signature-header <name>', 'only this header carries the signature')
    .option('--dedupe-header <name>', 'a request that repeats the value of this header is not stored again')
    .option(
      '--event-type-from <source>',
      'where the type of an event is: header:NAME, json:/POINTER, or two joined by +; default: as the scheme says; none: no types',
    )
    .option('--rate-limit <requests>', 'requests per window and client IP, for this webhook only', positive)
    .option('--max-payload-bytes <bytes>', 'less than WEBHOOK_MAX_PAYLOAD_BYTES', positive)
    .option('--retention-days <days>', 'less than RETENTION_DAYS', positive)
    .option('--expect-every-seconds <seconds>', 'an alert begins when the last event is older', positive)
    .option('--agent <id>', 'subscribe this agent; may be repeated', uuids)
    .option('--json', 'print one JSON document')
    .action((options: AddOptions) => withWebhooks(io, (webhooks, session) => add(io, webhooks, session, options)));

  command
    .command('list')
    .description('show all webhooks, newest first')
    .option('--json', 'print one JSON document')
    .action(({ json }: { json?: boolean }) =>
      withWebhooks(io, (webhooks, session) => list(io, webhooks, session, json)),
    );

  command
    .command('show')
    .description('show one webhook')
    .argument('<id>', 'id of the webhook', uuid)
    .option('--json', 'print one JSON document')
    .action((id: string, { json }: { json?: boolean }) =>
      withWebhooks(io, (webhooks, session) => show(io, webhooks, session, id, json)),
    );

  command
    .command('rotate')
    .description('rotate the secret; without --secret it is generated and printed, once')
    .argument('<id>', 'id of the webhook', uuid)
    .option('--secret <secret>', 'the new secret')
    .option('--secret-stdin', 'read the new secret from standard input')
    .option('--overlap-seconds <seconds>', 'how long the previous secret stays valid', seconds, 0)
    .option('--json', 'print one JSON document')
    .action((id: string, options: RotateOptions) => withWebhooks(io, (webhooks) => rotate(io, webhooks, id, options)));

  for (const [name, description, change] of [
    ['enable', 'accept events again', (webhooks, id) => webhooks.update(id, { enabled: true })],
    ['disable', 'answer 410 from now on', (webhooks, id) => webhooks.update(id, { enabled: false })],
    ['remove', 'delete the webhook; its events are kept', (webhooks, id) => webhooks.remove(id)],
  ] satisfies [string, string, (webhooks: Webhooks, id: string) => Promise<Change<unknown>>][])
    command
      .command(name)
      .description(description)
      .argument('<id>', 'id of the webhook', uuid)
      .option('--json', 'print one JSON document')
      .action((id: string, { json }: { json?: boolean }) =>
        withWebhooks(io, async (webhooks) => {
          known(id, await change(webhooks, id));
          if (json) printJson(io, { id, done: name });
          else printText(io, `${id}: ${name}d.\n`);
        }),
      );
  command.addCommand(usageCommand(io));
  return command;
}

async function add(
  io: CommandIo,
  webhooks: Webhooks,
  { settings }: CommandSession,
  options: AddOptions,
): Promise<void> {
  const given = await givenSecret(io, options);
  if (given !== null && options.generateSecret)
    throw new CommandError('--generate-secret and a given secret exclude each other', 2);
  const input = checked(webhookInput(settings).create, {
    name: options.name,
    description: options.description,
    secret: given,
    generate_secret: options.generateSecret,
    signature_scheme: options.scheme ?? (options.schemeFile === undefined ? undefined : CUSTOM),
    scheme_definition: options.schemeFile === undefined ? undefined : await readDefinition(options.schemeFile, io),
    public_key: options.publicKey,
    verify_token: options.verifyToken,
    tolerance_seconds: options.toleranceSeconds,
    signature_header: options.signatureHeader,
    dedupe_header: options.dedupeHeader,
    event_type_from: options.eventTypeFrom,
    rate_limit_max: options.rateLimit,
    max_payload_bytes: options.maxPayloadBytes,
    retention_days: options.retentionDays,
    expect_every_seconds: options.expectEverySeconds,
    agent_ids: options.agent,
  });
  const webhook = describeWebhook(settings.FRONTEND_PUBLIC_API_URL)(known('', await webhooks.add(input)));
  const { id, name, url, secret, ...rest } = webhook;
  if (options.json) return printJson(io, { id, name, url, secret, ...rest });
  printText(io, `Webhook ${name} created.\n  URL     ${url}\n`);
  if (secret !== undefined) printText(io, `  Secret  ${secret}   (shown once)\n`);
  printText(io, `\nTry it:  npx weir send ${url}${sendOptions(webhook, secret)}\n`);
}

/** Options with which `weir send` signs for the webhook. */
function sendOptions({ signature_scheme, has_secret, public_key }: WebhookRecord, secret: string | undefined): string {
  const key = public_key !== null ? ' --private-key FILE' : has_secret ? ` --secret ${secret ?? 'SECRET'}` : '';
  return signature_scheme === DEFAULT_SCHEME ? `${key} --github-examples` : `${key} --scheme ${signature_scheme}`;
}

/** Reads the file of --scheme-file; the input schema checks what it holds. */
async function readDefinition(file: string, io: CommandIo): Promise<unknown> {
  try {
    return JSON.parse(await readFile(resolve(io.directory, file), 'utf8'));
  } catch (error) {
    throw new CommandError(`${file} cannot be read as JSON: ${(error as Error).message}.`, 2);
  }
}

async function list(io: CommandIo, webhooks: Webhooks, { settings }: CommandSession, json?: boolean): Promise<void> {
  const rows = await webhooks.list();
  if (json) printJson(io, { items: rows.map(describeWebhook(settings.FRONTEND_PUBLIC_API_URL)) });
  else if (rows.length === 0)
    printText(io, 'No webhooks yet. Create one: npx weir webhook add --name github --generate-secret\n');
  else
    printText(
      io,
      table(
        ['ID', 'NAME', 'STATE', 'SCHEME', 'SIGNED', 'RATE LIMIT', 'CREATED'],
        rows.map((row) => [
          row.id,
          row.name,
          row.enabled ? 'enabled' : 'disabled',
          row.signature_scheme,
          row.has_secret || row.public_key !== null ? (row.signature_header ?? 'yes') : 'no',
          row.rate_limit_max === null ? 'default' : String(row.rate_limit_max),
          row.created_at,
        ]),
      ),
    );
}

async function show(
  io: CommandIo,
  webhooks: Webhooks,
  { settings }: CommandSession,
  id: string,
  json?: boolean,
): Promise<void> {
  const found = await webhooks.find(id);
  if (found === undefined) return known(id, { kind: 'unknown' });
  const webhook = describeWebhook(settings.FRONTEND_PUBLIC_API_URL)(found);
  if (json) return printJson(io, webhook);
  for (const [name, value] of Object.entries(webhook))
    printText(io, `${name.padEnd(28)}${visibleLine(shown(value))}`.trimEnd().concat('\n'));
}

function shown(value: unknown): string {
  if (Array.isArray(value)) return value.join(' ');
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value ?? '');
}

async function rotate(io: CommandIo, webhooks: Webhooks, id: string, options: RotateOptions): Promise<void> {
  const given = await givenSecret(io, options);
  const input = checked(rotateInput, { secret: given, overlap_seconds: options.overlapSeconds });
  const { secret } = known(id, await webhooks.rotate(id, input));
  if (options.json) return printJson(io, { id, secret, overlap_seconds: options.overlapSeconds });
  printText(io, `${id}: secret rotated`);
  printText(
    io,
    options.overlapSeconds > 0 ? `; the previous secret stays valid for ${options.overlapSeconds} s.\n` : '.\n',
  );
  if (secret !== undefined) printText(io, `  Secret  ${secret}   (shown once)\n`);
}

function withWebhooks<T>(io: CommandIo, work: (webhooks: Webhooks, session: CommandSession) => Promise<T>): Promise<T> {
  return withDatabase(io, (session) => {
    const { database, conninfo, keys } = session;
    const key = derivedKeys(keys, 'webhook-secrets')[0]!;
    const webhooks = new Webhooks({ database, changes: new Changes(conninfo), key }, commandActor());
    return withInput(() => work(webhooks, session));
  });
}

/** The secret of --secret or --secret-stdin; null: neither was given. */
export async function givenSecret(
  io: CommandIo,
  options: { secret?: string; secretStdin?: boolean },
): Promise<string | null> {
  if (options.secret !== undefined && options.secretStdin)
    throw new CommandError('--secret and --secret-stdin exclude each other', 2);
  if (!options.secretStdin) return options.secret ?? null;
  let text = '';
  for await (const chunk of io.stdin) text += chunk;
  return text.replace(/\r?\n$/, '');
}

function known<T>(id: string, change: Change<T>): T {
  return made(change, `no webhook has the id ${id}; see: weir webhook list`);
}
