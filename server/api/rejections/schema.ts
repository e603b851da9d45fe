/** Schemas of rejections. */
import { z } from 'zod';
import type { RejectionRecord } from '../../db/queries/rejections.ts';
import { idOf } from '../../resources/fields.ts';
import { rejectionReason, rejectionSchema } from '../../resources/rejections.ts';
import { type RejectionReason, rejectionReasons } from '../../signatures/diagnosis/reasons.ts';
import { defaultSignatureHeaders } from '../../signatures/signature.ts';
import { pageQuery } from '../paging.ts';

/** Bytes of a body shown with its rejection; the whole body is a separate download. */
const PREVIEW_BYTES_MAX = 8_192;

export const rejectionQuery = z.strictObject({
  ...pageQuery,
  webhook_id: z.guid().optional().describe('only rejections of this webhook'),
  reason: rejectionReason.optional().describe('only rejections for this reason'),
});

export const acceptedSchema = z.object({ event_id: idOf('event') });

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
