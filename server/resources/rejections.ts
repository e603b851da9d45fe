/** Rejections: requests with a refused signature. */
import { z } from 'zod';
import { rejectionReasonNames } from '../signatures/diagnosis/reasons.ts';
import { bodyBytes, contentType, idOf, nameOf, receivedAt, sourceIp, timeOf } from './fields.ts';

export const rejectionReason = z
  .enum(rejectionReasonNames)
  .describe('why the signature did not verify; verifies_now: it verifies now');
const verified = z.boolean().describe('true: the signature verifies now');
const hint = z.string().describe('how to fix it');

export const rejectionSchema = z
  .object({
    id: idOf('rejection'),
    webhook_id: idOf('webhook'),
    webhook_name: nameOf('webhook'),
    received_at: receivedAt,
    source_ip: sourceIp,
    reason: rejectionReason,
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
      .object({ at: timeOf('when it was checked'), verified, reason: rejectionReason, hint })
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

export const recheckSchema = z.object({ verified, reason: rejectionReason, hint });
