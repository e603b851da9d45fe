/** Rejections: requests with a refused signature. */
import { z } from 'zod';
import { bodyBytes, contentType, idOf, nameOf, receivedAt, sourceIp, textOrNull, timeOf } from './fields.ts';
import { rejectionReasonNames } from './signatures/diagnosis/reasons.ts';

export const rejectionReason = z
  .enum(rejectionReasonNames)
  .describe('why the signature did not verify; verifies_now: it verifies now');
const verified = z.boolean().describe('true: the signature verifies now');
const hint = z.string().describe('how to fix it');

const fixKinds = ['use_header', 'set_scheme', 'set_secret', 'open_webhook'] as const;

const fixSchema = z
  .object({
    kind: z
      .enum(fixKinds)
      .describe(
        'use_header, set_scheme, set_secret: a change of the webhook that POST /api/v1/rejections/{id}/fix makes; open_webhook: the sender has the secret of that webhook',
      ),
    title: z.string().describe('the fix in a few words'),
    header: textOrNull('use_header: the header; else null'),
    schemes: z.array(z.string()).describe('set_scheme: the schemes that the sender may sign by'),
    needs: z.enum(['secret', 'public_key']).nullable().describe('what the sender must provide; null: nothing'),
    webhook_id: z.guid().nullable().describe('open_webhook: id of that webhook; else null'),
  })
  .meta({ id: 'RejectionFix' });
export type RejectionFix = z.output<typeof fixSchema>;

export const rejectionSchema = z
  .object({
    id: idOf('rejection'),
    webhook_id: idOf('webhook'),
    webhook_name: nameOf('webhook'),
    received_at: receivedAt,
    source_ip: sourceIp,
    reason: rejectionReason,
    hint,
    header: textOrNull('header that causes the rejection; null: the cause is not a header'),
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
    fixes: z.array(fixSchema).describe('changes of the webhook that may fix it, the most likely first'),
    last_check: z
      .object({ at: timeOf('when it was checked'), verified, reason: rejectionReason, hint })
      .nullable()
      .describe('result of the last re-check; null: not checked yet'),
  })
  .meta({ id: 'Rejection' });

export const rejectionDetailSchema = rejectionSchema.extend({
  headers: z.record(z.string(), z.string()).describe('without credentials, cookies and signatures'),
  content_type: contentType,
  body_preview: textOrNull('the first 8 KiB as text, if they are UTF-8'),
  body_preview_base64: textOrNull('the first 8 KiB in base64, if they are not UTF-8'),
});

export const recheckSchema = z.object({ verified, reason: rejectionReason, hint });

export const rejectionGroupSchema = z
  .object({
    webhook_id: idOf('webhook'),
    webhook_name: nameOf('webhook'),
    reason: rejectionReason,
    header: textOrNull('header that causes the rejections; null: the cause is not a header'),
    rejections: z.int().describe('number of rejections'),
    sources: z.int().describe('number of client addresses'),
    acceptable: z.int().describe('number of rejections that verify since their last check and can be accepted'),
    first_received_at: timeOf('when the oldest was received'),
    last_received_at: timeOf('when the newest was received'),
    newest: z.array(rejectionSchema).describe('the newest, at most 5'),
  })
  .meta({ id: 'RejectionGroup' });

export const rejectionGroupsSchema = z.object({
  items: z.array(rejectionGroupSchema).describe('all items'),
  kept: z.int().describe('number of rejections that are kept, accepted ones too'),
  rejected: z.int().describe('number of requests rejected since `since`; rejections are samples of them'),
  since: timeOf('start of the hour of the oldest rejection').nullable().describe('null: none is kept'),
});

export const rejectionFixed = z.object({
  webhook_id: idOf('webhook'),
  checked: z.int().describe('number of similar rejections that were checked again, at most 100'),
  verified: z.int().describe('number of those that verify now'),
});

export const rejectionsAccepted = z.object({
  accepted: z.int().describe('number of rejections that are events now'),
  refused: z.int().describe('number of those that no longer verify'),
  more: z.boolean().describe('true: at most 100 are accepted at once; repeat the request'),
});
