/** Webhooks: the table of their fields, and the schemas derived from it. */
import { z } from 'zod';
import { cellNumber } from './cells.ts';
import {
  between,
  createdAt,
  example,
  fieldName,
  givenId,
  idOf,
  nameOf,
  nameText,
  prose,
  recordIds,
  textOrNull,
  timeOrNull,
  updatedAt,
} from './fields.ts';
import { EVENT_TYPE_FROM_CHARACTERS_MAX, eventTypeFault, normalEventTypeFrom } from './signatures/event-type.ts';
import { createShape, exampleOf, outputShape, type Table, updateShape } from './table.ts';
import { answerFields } from './webhook-answers.ts';
import { checkCreated, schemeFields } from './webhook-schemes.ts';
import { secretInput } from './webhook-secrets.ts';

/** Largest Postgres integer (32 bits). */
const INTEGER_MAX = 2_147_483_647;
const EXPECT_SECONDS_MIN = 60;
const EXPECT_SECONDS_MAX = 31_536_000;

interface WebhookLimits {
  WEBHOOK_MAX_PAYLOAD_BYTES: number;
  RETENTION_DAYS: number;
}

const EVENT_TYPE_FROM =
  'where a request has the type of its event: header:NAME, json:/POINTER (RFC 6901), or two joined by +; null: as the signature scheme says; none: events have no type';
/** The fields of a webhook, in the order of answers. */
export const webhookFields = {
  id: { input: givenId, onlyNew: true, output: idOf('webhook'), example: example.webhook_id },
  name: {
    input: nameText.describe('1 to 200 characters'),
    output: nameOf('webhook'),
    example: 'shop',
    mcp: 'short name for people, such as shop orders',
    command: { flags: '--name <name>', text: 'display name' },
    form: { label: 'Name', hint: 'For example github or shop orders.' },
  },
  description: {
    input: prose(2_000).describe('purpose of the webhook; at most 2000 characters'),
    initial: '',
    output: z.string().describe('purpose of the webhook'),
    example: 'orders of the shop',
    mcp: 'its purpose',
    command: { flags: '--description <text>', text: 'what it is for' },
    form: { label: 'Description', type: 'textarea', rows: 2 },
  },
  url: {
    output: z.string().describe('URL that senders post to'),
    example: `https://weir.example.org/in/${example.webhook_id}`,
  },
  enabled: {
    input: z.boolean().describe('false: requests are answered 410'),
    initial: true,
    output: z.boolean().describe('false: requests are answered 410'),
    example: true,
    command: { flags: '--enabled <value>', text: 'false: answer 410' },
  },
  has_secret: { output: z.boolean().describe('false: signatures are not checked'), example: true },
  previous_secret_expires_at: {
    output: timeOrNull('end of validity of the previous secret; null without one'),
  },
  ...schemeFields,
  ...answerFields,
  signature_header: {
    input: fieldName
      .nullable()
      .describe('header that must carry the signature; null: either of the two default headers'),
    initial: null,
    output: textOrNull('header that carries the signature; null: either of the two default headers'),
    mcp: 'header with the signature; only for the schemes sha256 and token',
    command: { flags: '--signature-header <name>', text: 'only this header carries the signature' },
    form: {
      label: 'Signature header',
      hint: 'Only for the schemes sha256 (empty: X-Hub-Signature-256 or X-Webhook-Signature) and token. Other schemes define it.',
    },
  },
  dedupe_header: {
    input: fieldName
      .nullable()
      .describe('header whose value identifies duplicates: a request with a known value is not stored again'),
    initial: null,
    output: textOrNull('header whose value identifies duplicates; null: none'),
    mcp: 'header whose value identifies repeated requests',
    command: {
      flags: '--dedupe-header <name>',
      text: 'a request that repeats the value of this header is not stored again',
    },
    form: {
      label: 'Deduplication header',
      hint: 'Contains a unique id for each request, for example X-GitHub-Delivery. A duplicate gets a 200 response and is not stored again.',
    },
  },
  event_type_from: {
    input: z
      .string()
      .max(EVENT_TYPE_FROM_CHARACTERS_MAX)
      .overwrite(normalEventTypeFrom)
      .superRefine((given, context) => {
        const message = eventTypeFault(given);
        if (message !== null) context.addIssue({ code: 'custom', message });
      })
      .nullable()
      .describe(EVENT_TYPE_FROM),
    initial: null,
    output: textOrNull(EVENT_TYPE_FROM),
    example: 'json:/type',
    mcp: 'where requests name their type, such as json:/type or header:x-event; absent: as the scheme says',
    command: {
      flags: '--event-type-from <source>',
      text: 'where the type of an event is: header:NAME, json:/POINTER, or two joined by +; none: no types; not set: as the scheme says',
    },
    form: {
      label: 'Event type from',
      hint: 'Where a request has the type of its event: header:NAME, json:/POINTER, or two joined by +. Empty: {default type}. none: events have no type.',
      guide: 'senders#event-types',
      placeholder: '{example type}',
      noHistory: true,
    },
  },
  max_payload_bytes: {
    input: atMost('WEBHOOK_MAX_PAYLOAD_BYTES'),
    initial: null,
    output: z.int().nullable().describe('largest body; null: WEBHOOK_MAX_PAYLOAD_BYTES'),
    command: { flags: '--max-payload-bytes <bytes>', text: 'less than WEBHOOK_MAX_PAYLOAD_BYTES' },
    form: { label: 'Payload limit (bytes)', hint: 'Empty: {payload limit} (default, and the largest value).' },
  },
  rate_limit_max: {
    input: between(1, INTEGER_MAX)
      .nullable()
      .describe(
        'requests per window and client address, counted for this webhook only; null: the default limit over all webhooks',
      ),
    initial: null,
    output: z.int().nullable().describe('requests per window and client address; null: the default limit'),
    command: { flags: '--rate-limit <requests>', text: 'requests per window and client IP, for this webhook only' },
    form: {
      label: 'Rate limit per client',
      hint: 'Requests in {rate window}. Empty: {rate limit} (default), counted over all webhooks.',
    },
  },
  retention_days: {
    input: atMost('RETENTION_DAYS'),
    initial: null,
    output: z.int().nullable().describe('days for which the events are kept; null: RETENTION_DAYS'),
    example: 30,
    command: { flags: '--retention-days <days>', text: 'less than RETENTION_DAYS' },
    form: { label: 'Retention (days)', hint: 'Empty: {retention} (default, and the largest value).' },
  },
  expect_every_seconds: {
    input: between(EXPECT_SECONDS_MIN, EXPECT_SECONDS_MAX)
      .nullable()
      .describe('an alert begins when the last event is older; 60 to 31536000; null: none is expected'),
    initial: null,
    output: z.int().nullable().describe('an alert begins when the last event is older; null: none is expected'),
    command: { flags: '--expect-every-seconds <seconds>', text: 'an alert begins when the last event is older' },
    form: {
      label: 'Expect an event every (seconds)',
      hint: 'An alert begins when the last event is older. Empty: no alert.',
    },
  },
  agent_ids: {
    input: recordIds.describe(
      'agents that receive the events. A removed agent receives no new events; its waiting deliveries stay claimable.',
    ),
    initial: [],
    output: z.array(z.guid()).describe('active agents that receive the events; an agent sees only itself'),
    example: [example.agent_id],
    mcp: 'agents that get the events',
    form: { label: 'Subscribed agents' },
  },
  secret: {
    input: secretInput.nullable().describe('the secret; it is never shown again'),
    initial: null,
    onlyNew: true,
    mcp: 'the secret that the sender signs with',
  },
  generate_secret: {
    input: z.boolean().describe('true: generates a secret, shown only in the response'),
    initial: false,
    onlyNew: true,
    mcp: 'true: Weir generates the secret; do not give one then',
  },
  cell: {
    input: cellNumber
      .nullable()
      .describe(
        'number of the cell that stores the events; null: the active one with the fewest bytes, 0 without cells',
      ),
    initial: null,
    onlyNew: true,
    output: cellNumber.describe('number of the cell that stores new events; 0: the database of the settings'),
    example: 0,
  },
  created_at: { output: createdAt, example: example.received_at },
  updated_at: { output: updatedAt, example: example.received_at },
} as const satisfies Table;

/** The parts of the form of a webhook. */
export const webhookForm = {
  main: ['name', 'description', 'signature_scheme'],
  scheme: ['signature_header', 'public_key', 'verify_token', 'tolerance_seconds', 'scheme_definition'],
  agents: ['agent_ids'],
  type: ['event_type_from'],
  limits: [
    'dedupe_header',
    'rate_limit_max',
    'max_payload_bytes',
    'retention_days',
    'expect_every_seconds',
    'answer',
    'refused_status',
  ],
} as const satisfies Record<string, readonly (keyof typeof webhookFields)[]>;

/** The inputs that create and update a webhook. @param limits settings that a webhook may lower for itself */
export function webhookInput(limits: WebhookLimits) {
  const { max_payload_bytes, retention_days } = webhookFields;
  const lower = (setting: keyof WebhookLimits) => ({ input: atMost(setting, limits[setting]) });
  const fields = {
    ...webhookFields,
    max_payload_bytes: { ...max_payload_bytes, ...lower('WEBHOOK_MAX_PAYLOAD_BYTES') },
    retention_days: { ...retention_days, ...lower('RETENTION_DAYS') },
  };
  return {
    create: z
      .strictObject(createShape(fields))
      .refine((given) => given.secret === null || !given.generate_secret, {
        path: ['generate_secret'],
        error: 'Give a secret or generate_secret, not both.',
      })
      .superRefine(checkCreated),
    update: z.strictObject({
      ...updateShape(fields),
      secret: secretInput
        .describe(
          'only with a change from a scheme with a public key to one with a secret; else use POST /api/v1/webhooks/{id}/rotate-secret',
        )
        .optional(),
      unverified: z
        .boolean()
        .describe('true: makes the change even if signatures are no longer checked after it')
        .optional(),
    }),
  };
}

type Input = ReturnType<typeof webhookInput>;
export type NewWebhook = z.output<Input['create']>;
export type WebhookPatch = z.output<Input['update']>;

export const webhookSchema = z
  .object(outputShape(webhookFields))
  .meta({ id: 'Webhook', examples: [exampleOf(webhookFields)] });

/** @param max value of the setting */
function atMost(setting: keyof WebhookLimits, max = INTEGER_MAX) {
  return z
    .int()
    .min(1)
    .max(max, `Give at most ${max}: a webhook can only lower ${setting}.`)
    .nullable()
    .describe(`null: ${setting}; may only lower that setting`);
}
