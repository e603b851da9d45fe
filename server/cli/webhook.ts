/** `weir webhook add|list|show|update|rotate|enable|disable|remove|usage`. */
import { Option } from 'commander';
import { weirCommand } from '../files/command.ts';
import { DEFAULT_SCHEME } from '../signatures/presets.ts';
import { seconds } from './arguments.ts';
import { CommandError, membersText } from './io.ts';
import type { BodyOf } from './manage/call.ts';
import { idsOfGiven, readList } from './manage/lists.ts';
import { type Given, type Row, repeated, row } from './manage/row.ts';
import { checkSecret, givenSecret, type SecretOptions } from './secret.ts';
import { addFieldOptions, changesOf, type FieldOptions, fieldsOf } from './webhook-fields.ts';
import { usageRow } from './webhook-usage.ts';

interface AddOptions extends FieldOptions, SecretOptions {
  name: string;
  generateSecret?: boolean;
  agent?: string[];
}

interface UpdateOptions extends FieldOptions {
  name?: string;
  enabled?: 'true' | 'false';
}

const target = 'webhook';

export const webhookRows: readonly Row[] = [
  row<AddOptions>()({
    name: 'add',
    description: 'create a webhook',
    more: (command) =>
      addFieldOptions(
        command
          .requiredOption('--name <name>', 'display name')
          .option(
            '--secret <secret>',
            'signing secret (visible to other users of this machine; better: --secret-stdin)',
          )
          .option('--secret-stdin', 'read the secret from standard input')
          .option('--generate-secret', 'generate a secret and print it, once'),
        'add',
      ).option('--agent <agent>', 'subscribe this agent, by id or name; may be repeated', repeated),
    check: (_id, options) => {
      checkSecret(options);
      if (options.generateSecret && (options.secret !== undefined || options.secretStdin))
        throw new CommandError('--generate-secret and a given secret exclude each other', 2);
    },
    run: async (call, { options, io }) => {
      const { name, generateSecret, agent } = options;
      const input = {
        name,
        ...(await fieldsOf(io, options)),
        secret: await givenSecret(io, options),
        generate_secret: generateSecret,
        agent_ids: await idsOfGiven(call, 'agent', agent),
      };
      return call('createWebhook', { input });
    },
    text: addedText,
  }),

  row()({
    name: 'list',
    description: 'show all webhooks, newest first',
    run: (call) => readList(call, 'listWebhooks'),
    list: {
      columns: ['ID', 'NAME', 'STATE', 'SCHEME', 'SIGNED', 'RATE LIMIT', 'CREATED'],
      cells: (webhook) => [
        webhook.id,
        webhook.name,
        webhook.enabled ? 'enabled' : 'disabled',
        webhook.signature_scheme,
        webhook.has_secret || webhook.public_key !== null ? (webhook.signature_header ?? 'yes') : 'no',
        webhook.rate_limit_max === null ? 'default' : String(webhook.rate_limit_max),
        webhook.created_at,
      ],
      whenEmpty: () => `No webhooks yet. Create one: ${weirCommand()} webhook add --name github --generate-secret`,
    },
  }),

  row()({
    name: 'show',
    description: 'show one webhook',
    target,
    run: (call, { id }) => call('showWebhook', { id }),
    text: membersText,
  }),

  row<UpdateOptions>()({
    name: 'update',
    description: 'change members of a webhook; see also rotate (secret) and weir agent subscribe',
    target,
    more: (command) =>
      addFieldOptions(
        command
          .option('--name <name>', 'display name')
          .addOption(new Option('--enabled <value>', 'false: answer 410').choices(['true', 'false'])),
        'update',
      ),
    run: async (call, { id, options, io }) => {
      const { name, enabled } = options;
      const input = { name, enabled: enabled && enabled === 'true', ...(await changesOf(io, options)) };
      if (Object.values(input).every((value) => value === undefined))
        throw new CommandError('nothing to change; see: weir webhook update --help', 2);
      return call('updateWebhook', { id, input });
    },
    text: ({ id }) => `${id}: updated.\n`,
  }),

  row<SecretOptions & { overlapSeconds: number }>()({
    name: 'rotate',
    description: 'rotate the secret; without --secret it is generated and printed, once',
    target,
    options: [
      ['--secret <secret>', 'the new secret'],
      ['--secret-stdin', 'read the new secret from standard input'],
      ['--overlap-seconds <seconds>', 'how long the previous secret stays valid', seconds, 0],
    ],
    check: (_id, options) => checkSecret(options),
    run: async (call, { id, options, io }) =>
      call('rotateSecret', {
        id,
        input: { secret: await givenSecret(io, options), overlap_seconds: options.overlapSeconds },
      }),
    text: ({ id, secret }, { options: { overlapSeconds } }) =>
      `${id}: secret rotated${overlapSeconds > 0 ? `; the previous secret stays valid for ${overlapSeconds} s` : ''}.\n${secretText(secret)}`,
  }),

  row()({
    name: 'enable',
    description: 'accept events again',
    target,
    run: (call, { id }) => call('updateWebhook', { id, input: { enabled: true } }),
    text: ({ id }) => `${id}: enabled.\n`,
  }),

  row()({
    name: 'disable',
    description: 'answer 410 from now on',
    target,
    run: (call, { id }) => call('updateWebhook', { id, input: { enabled: false } }),
    text: ({ id }) => `${id}: disabled.\n`,
  }),

  row()({
    name: 'remove',
    description: 'delete the webhook; its events are kept',
    target,
    removes: true,
    run: (call, { id }) => call('deleteWebhook', { id }),
    text: (_answer, { id }) => `${id}: removed.\n`,
  }),

  usageRow,
];

function addedText(webhook: BodyOf<'createWebhook'>, { connection }: Given<AddOptions>): string {
  const { id, name, url, secret } = webhook;
  const listen = `${connection.clientCommand} listen ${connection.apiUrl}`;
  return (
    `Webhook ${name} created.\n  URL     ${url}\n${secretText(secret)}` +
    `\nTry it:  ${weirCommand()} send ${url}${sendOptions(webhook)}\n` +
    `\nForward its events to your own machine:\n  ${listen} --token-file FILE --webhook ${id} --forward ADDRESS\n`
  );
}

function secretText(secret: string | undefined): string {
  return secret === undefined ? '' : `  Secret  ${secret}   (shown once)\n`;
}

/** Options with which `weir send` signs for the webhook. */
function sendOptions({ signature_scheme, has_secret, public_key, secret }: BodyOf<'createWebhook'>): string {
  const key = public_key !== null ? ' --private-key FILE' : has_secret ? ` --secret ${secret ?? 'SECRET'}` : '';
  return signature_scheme === DEFAULT_SCHEME ? `${key} --github-examples` : `${key} --scheme ${signature_scheme}`;
}
