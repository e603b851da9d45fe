/** Schemas of rejections. */
import { z } from 'zod';
import { inOrder, notInOrder } from '../../../model/event-filter.ts';
import { idOf, instant, recordId } from '../../../model/fields.ts';
import { rejectionReason, rejectionSchema } from '../../../model/rejections.ts';
import type { SchemeDefinition } from '../../../model/signatures/definition.ts';
import { type RejectionReason, rejectionReasons } from '../../../model/signatures/diagnosis/reasons.ts';
import { DEFAULT_SCHEME, definitionOf, presets } from '../../../model/signatures/presets.ts';
import { headerValue } from '../../../model/signatures/sign.ts';
import { defaultSignatureHeaders } from '../../../model/signatures/signature.ts';
import { headerOf } from '../../../model/signatures/sources.ts';
import { schemeFields } from '../../../model/webhook-schemes.ts';
import { rotateInput } from '../../../model/webhook-secrets.ts';
import { fixesOf } from '../../../receive/rejections/fixes.ts';
import type { RejectionRecord } from '../../../store/queries/rejections/rejections.ts';
import { limitUpTo, pageQuery } from '../paging.ts';

/** Bytes of a body shown with its rejection; the whole body is a separate download. */
const PREVIEW_BYTES_MAX = 8_192;

export const rejectionQuery = z
  .strictObject({
    ...pageQuery,
    webhook_id: recordId.optional().describe('only rejections of this webhook'),
    reason: rejectionReason.optional().describe('only rejections for this reason'),
    from: instant.optional().describe('received at this time or later; UTC if it has no time zone'),
    to: instant.optional().describe('received before this time'),
  })
  .refine(inOrder, notInOrder);

export const groupQuery = z.strictObject({
  webhook_id: recordId.optional().describe('only rejections of this webhook'),
  limit: limitUpTo(50, 20, 'maximum groups'),
});

/** Members that a fix does not need are refused. */
export const fixInput = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('use_header').describe('reads the signature from the header of the rejection') }),
  z.strictObject({
    kind: z.literal('set_scheme').describe('verifies by another scheme'),
    signature_scheme: schemeFields.signature_scheme.input,
    secret: rotateInput.shape.secret.describe('the secret of the sender; null: the current one'),
    public_key: schemeFields.public_key.input.default(null),
  }),
  z.strictObject({
    kind: z
      .literal('set_secret')
      .describe('verifies with the secret of the sender; the current one stays valid for a day'),
    secret: rotateInput.shape.secret.unwrap().unwrap().describe('the secret of the sender'),
  }),
]);

export const acceptManyInput = z.strictObject({
  webhook_id: recordId.describe('webhook whose rejections are accepted'),
});

export const acceptedSchema = z.object({ event_id: idOf('event') });

/** A rejection as the API returns it. Other columns are left out: no digest, no secret. */
export function describeRejection(row: RejectionRecord): z.output<typeof rejectionSchema> {
  const {
    checked_at,
    checked_reason,
    signatures,
    signature_header,
    signature_scheme,
    scheme_definition,
    public_key,
    ...rest
  } = row;
  const settings = { signatureScheme: signature_scheme, schemeDefinition: scheme_definition };
  const definition = definitionOf({ ...settings, signatureHeader: signature_header, publicKey: public_key });
  const own = signature_scheme === DEFAULT_SCHEME ? signature_header : definition?.header;
  const headers =
    own !== null && own !== undefined ? [own] : signature_scheme === DEFAULT_SCHEME ? [...defaultSignatureHeaders] : [];
  const hintOf = (reason: RejectionReason) => {
    const isExpectedNamed = definition !== null && headers.length > 0 && formReasons.has(reason);
    return `${hintFor(row, reason)}${isExpectedNamed ? ` Expected: ${expectedOf(headers, definition)}.` : ''}`;
  };
  return rejectionSchema.parse({
    ...rest,
    expected_headers: headers,
    signatures: signatures.map(({ name, shape }) => ({ name, shape })),
    hint: hintOf(row.reason),
    fixes: fixesOf(row),
    last_check:
      checked_at === null || checked_reason === null
        ? null
        : {
            at: checked_at,
            verified: checked_reason === 'verifies_now',
            reason: checked_reason,
            hint: hintOf(checked_reason),
          },
  });
}

/** Reasons whose hint also describes the expected headers of a signed request. */
const formReasons: ReadonlySet<RejectionReason> = new Set(['header_missing', 'malformed']);

/** The headers of a signed request: `x-signature: t=TIME,v1=SIGNATURE, and x-event-id; the signature in hex`. */
function expectedOf(headers: readonly string[], definition: SchemeDefinition): string {
  const { algorithm, prefix = '', encoding = 'hex', timestamp, id } = definition;
  const more = [headerOf(timestamp?.from), headerOf(id)].filter((name) => name !== null);
  const names = `${headers.join(' or ')}: `;
  const others = more.length === 0 ? '' : `, and ${more.join(' and ')}`;
  if (algorithm === 'token') return `${names}${prefix}SECRET${others}`;
  if (algorithm === 'basic') return `${names}Basic and base64 of the secret${others}`;
  return `${names}${headerValue(definition, 'TIME', 'SIGNATURE')}${others}; the signature in ${encoding}`;
}

/** The hint of the reason table. For `scheme_other` and `other_webhook` it also names the scheme or the webhook. */
function hintFor(row: RejectionRecord, reason: RejectionReason): string {
  const { other_webhook: other, signature_scheme: scheme, header } = row;
  const hint = rejectionReasons[reason];
  if (reason === 'scheme_other') {
    const senders = presets.filter(({ definition }) => definition.header === header);
    const names = senders.map(({ title, name }) => `${title} (${name})`).join(', ');
    if (names !== '') return `${hint} The header ${header} is that of ${names}; the webhook is set to ${scheme}.`;
  }
  return reason === 'other_webhook' && other !== null
    ? `${hint} The other webhook is ${other.name} (${other.id}).`
    : hint;
}

/** The first PREVIEW_BYTES_MAX bytes of a body, as text if they are UTF-8, else in base64; both null without a body. */
export function previewOf(body: Buffer | null): { body_preview: string | null; body_preview_base64: string | null } {
  if (body === null) return { body_preview: null, body_preview_base64: null };
  const start = body.subarray(0, PREVIEW_BYTES_MAX);
  try {
    // Decoded as a stream, so that a character divided by the cut is left out instead of causing an error.
    const text = new TextDecoder('utf-8', { fatal: true }).decode(start, { stream: start.length < body.length });
    return { body_preview: text, body_preview_base64: null };
  } catch {
    return { body_preview: null, body_preview_base64: start.toString('base64') };
  }
}
