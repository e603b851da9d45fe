/** `weir webhook add|list|show|update|rotate|end-previous|enable|disable|remove|usage`. */
import { CommandError, membersText } from '../../../base/command/io.ts';
import { weirCommand } from '../../../base/command/name.ts';
import type { BodyOf } from '../../../manage/api/operations.ts';
import { whyUnreachable } from '../../../model/address.ts';
import { CUSTOM, DEFAULT_SCHEME } from '../../../model/signatures/presets.ts';
import { webhookFields } from '../../../model/webhooks.ts';
import { bytes } from '../../../pages/show.ts';
import { wholeNumber } from '../../command/arguments.ts';
import { idsOfGiven, readList } from '../lists.ts';
import { act, type Given, type Row, repeated, row } from '../row.ts';
import { cellOf } from './cell.ts';
import { changesOf, checkSecret, fieldOptions, givenSecret, membersOf, type SecretOptions } from './field-options.ts';

interface AddOptions extends SecretOptions {
  cell?: string;
  generateSecret?: boolean;
  agent?: string[];
}

const target = 'webhook';
/** Number of requests that `weir send --github-examples` sends, rounded up. */
const GITHUB_EXAMPLES = 350;

export const rows: readonly Row[] = [
  row<AddOptions>()({
    name: 'add',
    description: 'create a webhook',
    options: [
      ...fieldOptions(webhookFields, 'add'),
      ['--secret <secret>', 'signing secret (visible to other users of this machine; better: --secret-stdin)'],
      ['--secret-stdin', 'read the secret from standard input'],
      ['--generate-secret', 'generate a secret and print it, once'],
      ['--cell <cell>', 'store its events in this cell, by number or name; default: the one with the fewest bytes'],
      ['--agent <agent>', 'subscribe this agent, by id or name; may be repeated', repeated],
    ],
    check: (_id, options) => {
      checkSecret(options);
      if (options.generateSecret && (options.secret !== undefined || options.secretStdin))
        throw new CommandError('--generate-secret and a given secret exclude each other', 2);
    },
    run: async (call, { options, io }) => {
      const { generateSecret, agent, cell } = options;
      const input = {
        ...withScheme(await membersOf(io, webhookFields, options)),
        secret: await givenSecret(io, options),
        generate_secret: generateSecret,
        cell: cell === undefined ? undefined : await cellOf(call, cell),
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
      cells: ['id', 'name', stateOf, 'signature_scheme', signedBy, ['rate_limit_max', 'default'], 'created_at'],
      whenEmpty: () =>
        `No webhooks yet. Create one: ${weirCommand()} webhook add --name github --scheme github --generate-secret`,
    },
  }),

  row()({
    name: 'show',
    description: 'show one webhook',
    target,
    run: (call, { id }) => call('showWebhook', { id }),
    text: membersText,
  }),

  row<{ unverified?: boolean }>()({
    name: 'update',
    description: 'change members of a webhook; see also rotate (secret) and weir agent subscribe',
    target,
    options: [
      ...fieldOptions(webhookFields, 'update'),
      ['--unverified', 'make the change even if signatures are no longer checked after it'],
    ],
    run: async (call, { id, options, io }) => {
      const changes = withScheme(await changesOf(io, webhookFields, options));
      return call('updateWebhook', { id, input: { ...changes, unverified: options.unverified } });
    },
    text: (_, { key }) => `${key}: updated.\n`,
  }),

  act(
    target,
    'end-previous',
    'end the overlap of a rotation: the previous secret verifies nothing any more',
    'endPreviousSecret',
    'previous secret ended',
  ),

  row<SecretOptions & { overlapSeconds: number }>()({
    name: 'rotate',
    description: 'rotate the secret; without --secret it is generated and printed, once',
    target,
    asks: 'rotateSecret',
    options: [
      ['--secret <secret>', 'the new secret'],
      ['--secret-stdin', 'read the new secret from standard input'],
      ['--overlap-seconds <seconds>', 'how long the previous secret stays valid', wholeNumber(undefined, 0), 0],
    ],
    check: (_id, options) => checkSecret(options),
    run: async (call, { id, options, io }) =>
      call('rotateSecret', {
        id,
        input: { secret: await givenSecret(io, options), overlap_seconds: options.overlapSeconds },
      }),
    text: ({ secret }, { key, options: { overlapSeconds } }) =>
      `${key}: secret rotated${overlapSeconds > 0 ? `; the previous secret stays valid for ${overlapSeconds} s` : ''}.\n${secretText(secret)}`,
  }),

  act(target, 'enable', 'accept events again', 'updateWebhook', 'enabled', { enabled: true }),
  act(target, 'disable', 'answer 410 from now on', 'updateWebhook', 'disabled', { enabled: false }),
  act(target, 'remove', 'delete the webhook; its events are kept', 'deleteWebhook', 'removed'),

  row()({
    name: 'usage',
    description: 'show how many events each webhook has stored, and how many bytes; most first',
    run: (call) => call('listWebhookUsage'),
    list: {
      columns: ['WEBHOOK', 'EVENTS', 'BYTES OF BODIES', 'OLDEST', 'ID'],
      cells: ['name', 'events', (one) => bytes(one.bytes), ['oldest_at', 'none'], 'webhook_id'],
      whenEmpty: 'No webhooks yet.',
    },
    text: ({ tables: { events, deliveries } }) =>
      `On disk, with indexes: events ${bytes(events)}, deliveries ${bytes(deliveries)}.\n`,
  }),
];

type Listed = BodyOf<'listWebhooks'>['items'][number];

function stateOf({ enabled }: Listed): string {
  return enabled ? 'enabled' : 'disabled';
}

/** The header of the signature; `yes` for a scheme whose header has no setting; `no` without a secret or key. */
function signedBy({ has_secret, public_key, signature_header }: Listed): string {
  return has_secret || public_key !== null ? (signature_header ?? 'yes') : 'no';
}

/** A given definition selects the scheme custom; another scheme removes the definition. */
function withScheme(members: Record<string, unknown>): object {
  const { signature_scheme: scheme, scheme_definition: definition } = members;
  if (definition !== undefined) return { signature_scheme: CUSTOM, ...members };
  return scheme === undefined || scheme === CUSTOM ? members : { ...members, scheme_definition: null };
}

function addedText(webhook: BodyOf<'createWebhook'>, { connection }: Given<AddOptions>): string {
  const { id, name, url, secret } = webhook;
  const trouble = whyUnreachable(url);
  const advice = 'put a proxy with TLS in front, and set PUBLIC_URL (guide Installing, Behind a proxy)';
  const listen = `${connection.clientCommand} listen ${connection.apiUrl}`;
  return (
    `Webhook ${name} created.\n  URL     ${url}\n${secretText(secret)}${trouble === null ? '' : `\n${trouble}: ${advice}.\n`}` +
    `\nTry it:  ${weirCommand()} send ${url}${sendOptions(webhook)}\n` +
    `\nForward its events to your own machine:\n  ${listen} --token-file FILE --webhook ${id} --forward ADDRESS\n`
  );
}

function secretText(secret: string | undefined): string {
  return secret === undefined ? '' : `  Secret  ${secret}   (shown once)\n`;
}

/** Options with which `weir send` signs for the webhook. */
function sendOptions(webhook: BodyOf<'createWebhook'>): string {
  const { signature_scheme, has_secret, public_key, secret, rate_limit_max } = webhook;
  const secretOption = has_secret ? ` --secret ${secret ?? 'SECRET'}` : ' --unsigned';
  const key = public_key !== null ? ' --private-key FILE' : secretOption;
  const scheme = signature_scheme === DEFAULT_SCHEME ? '' : ` --scheme ${signature_scheme}`;
  // Under a lower limit, such as the default one of 60 a minute, the 329 examples take minutes.
  const isFast = (rate_limit_max ?? 0) >= GITHUB_EXAMPLES && [DEFAULT_SCHEME, 'github'].includes(signature_scheme);
  return `${key}${scheme}${isFast ? ' --github-examples' : ''}`;
}
