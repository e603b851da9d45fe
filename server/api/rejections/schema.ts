/** Schemas of rejections. */
import { z } from 'zod';
import type { RejectionRecord } from '../../db/queries/rejections.ts';
import { bodyBytes, contentType, idOf, nameOf, receivedAt, sourceIp, timeOf } from '../../http/members.ts';
import { type RejectionReason, rejectionReasonNames, rejectionReasons } from '../../signatures/diagnosis/reasons.ts';
import { defaultSignatureHeaders } from '../../signatures/signature.ts';
import { pageQuery } from '../paging.ts';

/** Bytes of a body shown with its rejection; the whole body is a separate download. */
const PREVIEW_BYTES_MAX = 8_192;

const reason = z.enum(rejectionReasonNames).describe('why the signature did not verify; verifies_now: it verifies now');
const verified = z.boolean().describe('true: the signature verifies now');
const hint = z.string().describe('how to fix it');
export const rejectionQuery = z.strictObject({
  ...pageQuery,
  webhook_id: z.guid().optional().describe('only rejections of this webhook'),
  reason: reason.optional().describe('only rejections for this reason'),
});

export const rejectionSchema = z
  .object({
    id: idOf('rejection'),
    webhook_id: idOf('webhook'),
    webhook_name: nameOf('webhook'),
    received_at: receivedAt,
    source_ip: sourceIp,
    reason,
    hint,
    header: z.string().nullable().describe('header that causes the rejection; null: the cause is not a header'),
    otherwise_valid: z
      .boolean()
      .nullable()
      .describe('true: the reason is the only fault, and the request verifies once it is fixed; null: unknown'),
    other_webhook: z
      .object({ id: idOf('webhook'), name: nameOf('webhook') })
      .nullable()
      .describe('webhook whose secret signed the request; null: not determined'),
    expected_headers: z.array(z.string()).describe('headers in which the webhook currently expects the signature'),
    signatures: z
      .array(
        z.object({
          name: z.string().describe('name of the header'),
          shape: z.string().describe('form of the value, e.g. its length and prefix'),
        }),
      )
      .describe('the signature headers, without their digests'),
    bytes: bodyBytes,
    body_kept: z
      .boolean()
      .describe('false: the body was larger than REJECTION_BODY_BYTES_MAX, or contained the secret'),
    batch: z.boolean().describe('true: the request was sent to /in/{webhook_id}/batch'),
    accepted_event_id: z
      .guid()
      .nullable()
      .describe('event that was created by accepting the rejection; null: it was not accepted'),
    last_check: z
      .object({ at: timeOf('when it was checked'), verified, reason, hint })
      .nullable()
      .describe('result of the last re-check; null: not checked yet'),
  })
  .meta({ id: 'Rejection' });

export const rejectionDetailSchema = rejectionSchema.extend({
  headers: z.record(z.string(), z.string()).describe('without credentials, cookies and signatures'),
  content_type: contentType,
  body_preview: z.string().nullable().describe('the first 8 KiB as text, if they are UTF-8'),
  body_preview_base64: z.string().nullable().describe('the first 8 KiB in base64, if they are not UTF-8'),
});

export const acceptedSchema = z.object({ event_id: idOf('event') });

export const recheckSchema = z.object({ verified, reason, hint });

/** A rejection as the API returns it. Other columns are left out: no digest, no secret. */
export function describeRejection(row: RejectionRecord): z.output<typeof rejectionSchema> {
  const { checked_at, checked_reason, signatures, signature_header, ...rest } = row;
  return rejectionSchema.parse({
    ...rest,
    expected_headers: signature_header === null ? [...defaultSignatureHeaders] : [signature_header],
    signatures: signatures.map(({ name, shape }) => ({ name, shape })),
    hint: hintOf(row, row.reason),
    last_check:
      checked_at === null || checked_reason === null
        ? null
        : {
            at: checked_at,
            verified: checked_reason === 'verifies_now',
            reason: checked_reason,
            hint: hintOf(row, checked_reason),
          },
  });
}

/** The hint of the reason table. Users of the API also see which webhook the other one is. */
function hintOf({ other_webhook: other }: RejectionRecord, reason: RejectionReason): string {
  const hint = rejectionReasons[reason];
  return reason === 'other_webhook' && other !== null
    ? `${hint} The other webhook is ${other.name} (${other.id}).`
    : hint;
}

/** The start of a body as the API returns it. */
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
