/** `weir rejection list|show|fix|recheck|accept`. */
import { CommandError } from '../../../base/command/io.ts';
import { time, wholeNumber } from '../../command/arguments.ts';
import { idOfGiven, readList } from '../lists.ts';
import { type Row, row } from '../row.ts';
import { headerLines } from './event.ts';
import { checkSecret, givenSecret, type SecretOptions } from './field-options.ts';

const target = { argument: 'id', description: 'id of the rejection' } as const;

export const rows: readonly Row[] = [
  row<{ webhook?: string; from?: string; to?: string; limit: number }>()({
    name: 'list',
    description: 'show the newest rejections and their reasons',
    options: [
      ['--webhook <webhook>', 'of this webhook, by id or name'],
      ['--from <time>', 'received at or after this time', time],
      ['--to <time>', 'received before this time', time],
      ['--limit <rejections>', 'maximum number', wholeNumber(), 20],
    ],
    run: async (call, { options: { webhook, limit, from, to } }) => {
      const webhook_id = await idOfGiven(call, 'webhook', webhook);
      return readList(call, 'listRejections', { webhook_id, from, to }, limit);
    },
    list: {
      columns: ['ID', 'WEBHOOK', 'RECEIVED', 'FROM', 'BYTES', 'REASON'],
      cells: ['id', (one) => one.webhook_name ?? one.webhook_id, 'received_at', 'source_ip', 'bytes', 'reason'],
      whenEmpty: 'No rejections.',
    },
  }),

  row<{ body?: true; json?: true }>()({
    name: 'show',
    description: 'show one rejection, with control characters escaped, and how to fix its cause',
    target,
    options: [['--body', 'write only the body, byte for byte']],
    run: async (call, { id, options, connection }) => {
      const rejection = await call('showRejection', { id });
      const reads = options.body || (rejection.body_kept && !options.json);
      return { rejection, body: reads ? await connection.readBytes('showRejectionBody', id) : null };
    },
    json: ({ rejection }) => rejection,
    text: ({ rejection, body }, { options }) => {
      if (options.body) return body!;
      const { reason, hint, fixes, headers, signatures } = rejection;
      const shapes = signatures.map(({ name, shape }) => `${name}: (${shape})\n`).join('');
      const text = body === null ? '(the body was not kept)' : Buffer.from(body).toString('utf8');
      const titles = fixes.map(({ title }) => `Fix: ${title}\n`).join('');
      return `${reason}: ${hint}\n${titles}\n${headerLines(headers)}\n${shapes}\n${text}\n`;
    },
  }),

  row<SecretOptions & { useHeader?: boolean; scheme?: string; publicKey?: string }>()({
    name: 'fix',
    description: 'change the webhook so that the rejection verifies, and verify the similar ones again',
    target,
    options: [
      ['--use-header', 'read the signature from the header of the rejection'],
      ['--scheme <name>', 'verify by this scheme, with the secret or key that follows'],
      ['--public-key <key>', 'of the sender, for schemes that have one'],
      ['--secret <secret>', "the sender's secret (visible to other users of this machine; better: --secret-stdin)"],
      ['--secret-stdin', 'read the secret from standard input'],
    ],
    check: (_id, options) => {
      checkSecret(options);
      const { useHeader, scheme, secret, secretStdin } = options;
      if (!useHeader && scheme === undefined && secret === undefined && !secretStdin)
        throw new CommandError('give --use-header, --scheme or --secret-stdin; see: weir rejection show', 2);
    },
    run: async (call, { id, options, io }) => {
      const { useHeader, scheme: signature_scheme, publicKey: public_key } = options;
      const kind = useHeader ? 'use_header' : signature_scheme === undefined ? 'set_secret' : 'set_scheme';
      // Members that a fix does not need are refused, also null.
      const secret = (await givenSecret(io, options)) ?? undefined;
      return call('fixRejection', { id, input: { kind, secret, signature_scheme, public_key } });
    },
    text: ({ webhook_id, checked, verified }) =>
      `Webhook ${webhook_id} changed: ${verified} of ${checked} similar rejections verify.\n`,
  }),

  row()({
    name: 'recheck',
    description: 'verify one with the current secret and signature header; exit code 1 when it does not verify',
    target,
    run: (call, { id }) => call('recheckRejection', { id }),
    text: ({ reason, hint }, { id }) => `${id}: ${reason}. ${hint}\n`,
    failure: ({ verified, reason, hint }, { id }) => (verified ? null : `${id}: ${reason}. ${hint}`),
  }),

  row()({
    name: 'accept',
    description: 'store a rejection that now verifies as an event, at most once',
    target,
    run: (call, { id }) => call('acceptRejection', { id }),
    text: ({ event_id }, { id }) => `${id}: stored as event ${event_id}\n`,
  }),
];
