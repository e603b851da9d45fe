/** Input and output schemas of webhooks. */
import { z } from 'zod';
import type { Settings } from '../settings/read.ts';
import { EVENT_TYPE_FROM_CHARACTERS_MAX, eventTypeFault, normalEventTypeFrom } from '../signatures/event-type.ts';
import { DEFAULT_SCHEME } from '../signatures/presets.ts';
import {
  createdAt,
  example,
  fieldName,
  idOf,
  nameOf,
  nameText,
  prose,
  recordIds,
  secretText,
  updatedAt,
} from './fields.ts';
import { checkCreated, schemeInput, schemeOutput } from './webhook-schemes.ts';

/** Largest Postgres integer (32 bits). */
const INTEGER_MAX = 2_147_483_647;
const OVERLAP_SECONDS_MAX = 31_536_000;
const EXPECT_SECONDS_MIN = 60;
const EXPECT_SECONDS_MAX = 31_536_000;

type WebhookLimits = Pick<Settings, 'WEBHOOK_MAX_PAYLOAD_BYTES' | 'RETENTION_DAYS'>;

const EVENT_TYPE_FROM =
  'where a request has the type of its event: header:NAME, json:/POINTER (RFC 6901), or two joined by +; null: as the signature scheme says; none: events have no type';
const SECRET_BYTES_MAX = 1_024;
const secret = secretText(SECRET_BYTES_MAX).refine(
  // A text with too many characters is reported once.
  (given) => given.length > SECRET_BYTES_MAX || Buffer.byteLength(given) <= SECRET_BYTES_MAX,
  `Give at most ${SECRET_BYTES_MAX} bytes.`,
);

/** @param limits settings that a webhook may lower for itself */
export function webhookInput(limits: WebhookLimits) {
  const fields = {
    name: nameText.describe('1 to 200 characters'),
    description: prose(2_000).describe('purpose of the webhook; at most 2000 characters'),
    enabled: z.boolean().describe('false: requests are answered 410'),
    ...schemeInput,
    signature_header: fieldName
      .nullable()
      .describe('header that must carry the signature; null: either of the two default headers'),
    dedupe_header: fieldName
      .nullable()
      .describe('header whose value identifies duplicates: a request with a known value is not stored again'),
    event_type_from: z
      .string()
      .max(EVENT_TYPE_FROM_CHARACTERS_MAX)
      .overwrite(normalEventTypeFrom)
      .superRefine((given, context) => {
        const message = eventTypeFault(given);
        if (message !== null) context.addIssue({ code: 'custom', message });
      })
      .nullable()
      .describe(EVENT_TYPE_FROM),
    max_payload_bytes: atMost('WEBHOOK_MAX_PAYLOAD_BYTES', limits.WEBHOOK_MAX_PAYLOAD_BYTES),
    rate_limit_max: z
      .int()
      .min(1)
      .max(INTEGER_MAX)
      .nullable()
      .describe(
        'requests per window and client address, counted for this webhook only; null: the default limit over all webhooks',
      ),
    retention_days: atMost('RETENTION_DAYS', limits.RETENTION_DAYS),
    expect_every_seconds: z
      .int()
      .min(EXPECT_SECONDS_MIN)
      .max(EXPECT_SECONDS_MAX)
      .nullable()
      .describe('an alert begins when the last event is older; 60 to 31536000; null: none is expected'),
    agent_ids: recordIds.describe(
      'agents that receive the events. A removed agent receives no new events; its waiting deliveries stay claimable.',
    ),
  };
  return {
    create: z
      .strictObject({
        ...fields,
        description: fields.description.default(''),
        enabled: fields.enabled.default(true),
        signature_scheme: fields.signature_scheme.default(DEFAULT_SCHEME),
        scheme_definition: fields.scheme_definition.default(null),
        tolerance_seconds: fields.tolerance_seconds.default(null),
        public_key: fields.public_key.default(null),
        verify_token: fields.verify_token.default(null),
        signature_header: fields.signature_header.default(null),
        dedupe_header: fields.dedupe_header.default(null),
        event_type_from: fields.event_type_from.default(null),
        max_payload_bytes: fields.max_payload_bytes.default(null),
        rate_limit_max: fields.rate_limit_max.default(null),
        retention_days: fields.retention_days.default(null),
        expect_every_seconds: fields.expect_every_seconds.default(null),
        agent_ids: fields.agent_ids.default([]),
        secret: secret.nullable().default(null).describe('the secret; it is never shown again'),
        generate_secret: z.boolean().default(false).describe('true: generates a secret, shown only in the response'),
      })
      .refine((given) => given.secret === null || !given.generate_secret, {
        path: ['generate_secret'],
        error: 'Give a secret or generate_secret, not both.',
      })
      .superRefine(checkCreated),
    /** RFC 7396: absent members are unchanged, null unsets. */
    update: z
      .strictObject({
        ...fields,
        secret: z
          .never('A secret is changed by POST /api/v1/webhooks/{id}/rotate-secret.')
          .describe('not allowed here; use POST /api/v1/webhooks/{id}/rotate-secret'),
      })
      .partial(),
  };
}

export const rotateInput = z.strictObject({
  secret: secret.nullable().default(null).describe('the new secret; absent: generated, and shown only in the response'),
  overlap_seconds: z
    .int()
    .min(0)
    .max(OVERLAP_SECONDS_MAX)
    .default(0)
    .describe('how long the previous secret stays valid beside the new one'),
});

type Input = ReturnType<typeof webhookInput>;
export type NewWebhook = z.output<Input['create']>;
export type WebhookPatch = z.output<Input['update']>;
export type Rotation = z.output<typeof rotateInput>;

export const webhookSchema = z
  .object({
    id: idOf('webhook'),
    name: nameOf('webhook'),
    description: z.string().describe('purpose of the webhook'),
    url: z.string().describe('URL that senders post to'),
    enabled: z.boolean().describe('false: requests are answered 410'),
    has_secret: z.boolean().describe('false: signatures are not checked'),
    previous_secret_expires_at: z.iso
      .datetime()
      .nullable()
      .describe('end of validity of the previous secret; null: there is none'),
    ...schemeOutput,
    signature_header: z
      .string()
      .nullable()
      .describe('header that carries the signature; null: either of the two default headers'),
    dedupe_header: z.string().nullable().describe('header whose value identifies duplicates; null: none'),
    event_type_from: z.string().nullable().describe(EVENT_TYPE_FROM),
    max_payload_bytes: z.int().nullable().describe('largest body; null: WEBHOOK_MAX_PAYLOAD_BYTES'),
    rate_limit_max: z.int().nullable().describe('requests per window and client address; null: the default limit'),
    retention_days: z.int().nullable().describe('days for which the events are kept; null: RETENTION_DAYS'),
    expect_every_seconds: z
      .int()
      .nullable()
      .describe('an alert begins when the last event is older; null: none is expected'),
    agent_ids: z.array(z.guid()).describe('active agents that receive the events; an agent sees only itself'),
    created_at: createdAt,
    updated_at: updatedAt,
  })
  .meta({
    examples: [
      {
        id: example.webhook_id,
        name: 'shop',
        description: 'orders of the shop',
        url: `https://weir.example.org/in/${example.webhook_id}`,
        enabled: true,
        has_secret: true,
        previous_secret_expires_at: null,
        signature_scheme: DEFAULT_SCHEME,
        scheme_definition: null,
        tolerance_seconds: null,
        public_key: null,
        has_verify_token: false,
        signature_header: null,
        dedupe_header: null,
        event_type_from: 'json:/type',
        max_payload_bytes: null,
        rate_limit_max: null,
        retention_days: 30,
        expect_every_seconds: null,
        agent_ids: [example.agent_id],
        created_at: example.received_at,
        updated_at: example.received_at,
      },
    ],
  });

export const webhookActivitySchema = z
  .object({
    webhook_id: idOf('webhook'),
    last_event_at: z.iso
      .datetime()
      .nullable()
      .describe('when the last event was received, with a delay of a few seconds; null: none yet'),
    last_rejection_at: z.iso
      .datetime()
      .nullable()
      .describe('when the newest stored rejection was received; null: none is stored'),
    events_removed_before: z.iso
      .datetime()

      .nullable()
      .describe('events received before this time were removed by retention_days of the webhook; null: none yet'),
  })
  .meta({ id: 'WebhookActivity' });

export const secretSchema = z.object({
  slot: z.enum(['current', 'previous']).describe('previous: valid until expires_at beside the current secret'),
  created_at: createdAt,
  expires_at: z.iso.datetime().nullable().describe('when it expires; null: never'),
  uses: z.int().describe('number of requests that it verified, with a delay of a few seconds'),
  last_used_at: z.iso.datetime().nullable().describe('when it last verified a request; null: never'),
});

function atMost(setting: string, max: number) {
  return z
    .int()
    .min(1)
    .max(max, `Give at most ${max}: a webhook can only lower ${setting}.`)
    .nullable()
    .describe(`null: ${setting}; may only lower that setting`);
}
