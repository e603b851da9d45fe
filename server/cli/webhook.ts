import { type Command, Option } from 'commander';
import type { Change } from '../api/change.ts';
import { checked } from '../api/input.ts';
import { describeWebhook } from '../api/webhooks/operations.ts';
import { Webhooks } from '../api/webhooks/service.ts';
import { commandActor } from '../audit/actor.ts';
import { Changes } from '../db/announce.ts';
import type { WebhookRecord } from '../db/queries/webhooks.ts';
import { weirCommand } from '../files/command.ts';
import { rotateInput, webhookInput } from '../resources/webhooks.ts';
import { derivedKeys } from '../secrets/keys.ts';
import { DEFAULT_SCHEME } from '../signatures/presets.ts';
import { seconds, uuid, uuids } from './arguments.ts';
import { clientCommand } from './client-command.ts';
import { CommandError, type CommandIo, printJson, printMembers, printText, table } from './io.ts';
import { type CommandSession, made, withDatabase, withInput } from './session.ts';
import { addFieldOptions, changesOf, type FieldOptions, fieldsOf } from './webhook-fields.ts';
import { usageCommand } from './webhook-usage.ts';

interface AddOptions extends FieldOptions {
  name: string;
  secret?: string;
  secretStdin?: boolean;
  generateSecret?: boolean;
  agent?: string[];
  json?: boolean;
}

interface UpdateOptions extends FieldOptions {
  name?: string;
  enabled?: 'true' | 'false';
  json?: boolean;
}

interface RotateOptions {
  secret?: string;
  secretStdin?: boolean;
  overlapSeconds: number;
  json?: boolean;
}

/** `weir webhook add|list|show|update|rotate|enable|disable|remove|usage`. */
export function defineWebhook(command: Command, io: CommandIo): void {
  const add = command
    .command('add')
    .description('create a webhook')
    .requiredOption('--name <name>', 'display name')
    .option('--secret <secret>', 'signing secret (visible to other users of this machine; better: --secret-stdin)')
    .option('--secret-stdin', 'read the secret from standard input')
    .option('--generate-secret', 'generate a secret and print it, once');
  addFieldOptions(add, 'add')
    .option('--agent <id>', 'subscribe this agent; may be repeated', uuids)
    .option('--json', 'print one JSON document')
    .action((options: AddOptions) => withWebhooks(io, (webhooks, session) => create(io, webhooks, session, options)));

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

  const update = command
    .command('update')
    .description('change members of a webhook; see also rotate (secret) and weir agent subscribe')
    .argument('<id>', 'id of the webhook', uuid)
    .option('--name <name>', 'display name')
    .addOption(new Option('--enabled <value>', 'false: answer 410').choices(['true', 'false']));
  addFieldOptions(update, 'update')
    .option('--json', 'print one JSON document')
    .action((id: string, options: UpdateOptions) =>
      withWebhooks(io, (webhooks, session) => change(io, webhooks, session, id, options)),
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
}

async function create(
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
    ...(await fieldsOf(io, options)),
    secret: given,
    generate_secret: options.generateSecret,
    agent_ids: options.agent,
  });
  const webhook = describeWebhook(settings.FRONTEND_PUBLIC_API_URL)(known('', await webhooks.add(input)));
  const { id, name, url, secret, ...rest } = webhook;
  if (options.json) return printJson(io, { id, name, url, secret, ...rest });
  printText(io, `Webhook ${name} created.\n  URL     ${url}\n`);
  if (secret !== undefined) printText(io, `  Secret  ${secret}   (shown once)\n`);
  printText(io, `\nTry it:  ${weirCommand()} send ${url}${sendOptions(webhook, secret)}\n`);
  const listen = `${clientCommand(io, settings)} listen ${settings.FRONTEND_PUBLIC_API_URL}`;
  printText(
    io,
    `\nForward its events to your own machine:\n  ${listen} --token-file FILE --webhook ${id} --forward ADDRESS\n`,
  );
}

async function change(
  io: CommandIo,
  webhooks: Webhooks,
  { settings }: CommandSession,
  id: string,
  { json, name, enabled, ...fields }: UpdateOptions,
): Promise<void> {
  const given = { name, enabled: enabled && enabled === 'true', ...(await changesOf(io, fields)) };
  if (Object.values(given).every((value) => value === undefined))
    throw new CommandError('nothing to change; see: weir webhook update --help', 2);
  const webhook = known(id, await webhooks.update(id, checked(webhookInput(settings).update, given)));
  if (json) printJson(io, describeWebhook(settings.FRONTEND_PUBLIC_API_URL)(webhook));
  else printText(io, `${id}: updated.\n`);
}

/** Options with which `weir send` signs for the webhook. */
function sendOptions({ signature_scheme, has_secret, public_key }: WebhookRecord, secret: string | undefined): string {
  const key = public_key !== null ? ' --private-key FILE' : has_secret ? ` --secret ${secret ?? 'SECRET'}` : '';
  return signature_scheme === DEFAULT_SCHEME ? `${key} --github-examples` : `${key} --scheme ${signature_scheme}`;
}

async function list(io: CommandIo, webhooks: Webhooks, { settings }: CommandSession, json?: boolean): Promise<void> {
  const rows = await webhooks.list();
  if (json) printJson(io, { items: rows.map(describeWebhook(settings.FRONTEND_PUBLIC_API_URL)) });
  else if (rows.length === 0)
    printText(io, `No webhooks yet. Create one: ${weirCommand()} webhook add --name github --generate-secret\n`);
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
  printMembers(io, webhook);
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
