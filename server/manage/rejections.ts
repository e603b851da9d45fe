/** /api/v1/rejections: refused signatures, why they were refused, and whether they would be now. */
import { z } from 'zod';
import type { Diagnosed } from '../../workers/diagnose.ts';
import { done, operation, problem, problemLater, type Reply } from '../api/operation.ts';
import type { RefusedRequest } from '../core/diagnosis.ts';
import { restoredRequest } from '../core/kept-request.ts';
import { type RejectionReason, rejectionReasonNames, rejectionReasons } from '../core/rejection-reasons.ts';
import { readStoredHeaders } from '../core/stored-headers.ts';
import { readKeyrings } from '../db/keyrings.ts';
import type { Database } from '../db/pool.ts';
import { findRejection, listRejections, type RejectionRecord, setRejectionChecked } from '../db/queries/rejections.ts';
import type { Actor } from './actor.ts';
import { record } from './audit.ts';
import { eventId, pageOf, pageQuery, pageSchema } from './paging.ts';

/** Of a body, shown beside its rejection; the rest is to be downloaded. */
const PREVIEW_BYTES_MAX = 8_192;
const RETRY_SECONDS = 1;

const reason = z.enum(rejectionReasonNames);
const id = { schema: eventId, problem: 'rejection_unknown' } as const;
const listQuery = z.strictObject({ ...pageQuery, webhook_id: z.guid().optional(), reason: reason.optional() });

export const rejectionSchema = z
  .object({
    id: z.guid(),
    webhook_id: z.guid(),
    webhook_name: z.string(),
    received_at: z.iso.datetime(),
    source_ip: z.string(),
    reason,
    hint: z.string().describe('how to mend it'),
    header: z.string().nullable().describe('where the fault is, when it is in a header'),
    otherwise_valid: z
      .boolean()
      .nullable()
      .describe('nothing else is wrong: once this is mended the request verifies; null: that cannot be told'),
    signatures: z
      .array(z.object({ name: z.string(), shape: z.string() }))
      .describe('the signature headers, without their digests'),
    bytes: z.number().describe('of the body as it came'),
    body_kept: z.boolean().describe('false: it was larger than 64 KiB, or it held the secret'),
    last_check: z
      .object({ at: z.iso.datetime(), verified: z.boolean(), reason, hint: z.string() })
      .nullable()
      .describe('what checking it again gave'),
  })
  .meta({ id: 'Rejection' });

export const rejectionDetailSchema = rejectionSchema.extend({
  headers: z.record(z.string(), z.string()).describe('without credentials, cookies and signatures'),
  content_type: z.string().nullable(),
  body_preview: z.string().nullable().describe('the first 8 KiB, when they are text in UTF-8'),
  body_preview_base64: z.string().nullable().describe('the first 8 KiB otherwise'),
});

export const recheckSchema = z.object({ verified: z.boolean(), reason, hint: z.string() });

export interface RejectionParts {
  database: Database;
  /** Of webhook secrets, current first. */
  keys: readonly Buffer[];
  diagnose: (requests: readonly RefusedRequest[]) => Promise<Pick<Diagnosed, 'diagnosis'>[]>;
}

export type Recheck =
  | { kind: 'done'; verified: boolean; reason: RejectionReason }
  | { kind: 'unknown' }
  | { kind: 'without_body' }
  | { kind: 'unavailable' };

export class Rejections {
  readonly #parts: RejectionParts;

  constructor(parts: RejectionParts) {
    this.#parts = parts;
  }

  /** Checks the stored request with the webhook's present secrets and signature header. */
  async recheck(id: string, actor: Actor): Promise<Recheck> {
    const { database, keys, diagnose } = this.#parts;
    const rejection = await findRejection(database.query, id);
    if (rejection === undefined) return { kind: 'unknown' };
    if (rejection.body === null) return { kind: 'without_body' };
    const keyring = (await readKeyrings(database.query, keys, [rejection.webhook_id])).get(rejection.webhook_id);
    if (keyring === undefined) return { kind: 'unavailable' };
    const kept = { headers: rejection.headers.toString('utf8'), signatures: rejection.signatures };
    const request = restoredRequest(kept, rejection.body, keyring);
    const diagnosed = await diagnose([request]).catch(() => null);
    if (diagnosed === null) return { kind: 'unavailable' };
    const now = diagnosed[0]!.diagnosis.reason;
    const verified = now === 'verifies_now';
    // With a value that was not kept nothing new can be found out, except that none is asked for any more.
    const isWhole = rejection.signatures.every(({ value }) => value !== null);
    const reason = verified || isWhole ? now : rejection.reason;
    const isThere = await database.transaction(async (query) => {
      if (!(await setRejectionChecked(query, id, reason))) return false;
      await record(query, actor, {
        action: 'rejection.recheck',
        target: { kind: 'rejection', id, name: rejection.webhook_name },
        before: { reason: rejection.checked_reason ?? rejection.reason },
        after: { reason, verified },
      });
      return true;
    });
    return isThere ? { kind: 'done', verified, reason } : { kind: 'unknown' };
  }
}

export function rejectionOperations(parts: RejectionParts) {
  const { database } = parts;
  const rejections = new Rejections(parts);
  return {
    listRejections: operation({
      query: listQuery,
      answers: { 200: pageSchema(rejectionSchema) },
      handle: async ({ query }) => {
        const filter = { webhookId: query.webhook_id ?? null, reason: query.reason ?? null };
        const rows = await listRejections(database, filter, query.cursor ?? null, query.limit + 1);
        return done(200, pageOf(rows, query.limit, describeRejection));
      },
    }),

    showRejection: operation({
      id,
      answers: { 200: rejectionDetailSchema },
      handle: async ({ id }) => {
        const found = await findRejection(database.query, id);
        if (found === undefined) return problem('rejection_unknown');
        const headers = readStoredHeaders(found.headers.toString('utf8'));
        return done(200, {
          ...describeRejection(found),
          headers,
          content_type: headers['content-type'] ?? null,
          ...previewOf(found.body),
        });
      },
    }),

    /** As an attachment, so that no browser shows what a stranger sent. */
    showRejectionBody: operation({
      id,
      answers: { 200: null },
      problems: ['rejection_without_body'],
      handle: async ({ id, exchange }) => {
        const found = await findRejection(database.query, id);
        if (found === undefined) return problem('rejection_unknown');
        if (found.body === null) return problem('rejection_without_body');
        exchange.setHeader('content-disposition', `attachment; filename="${found.id}"`);
        exchange.setHeader('content-security-policy', "default-src 'none'; sandbox");
        exchange.answer(200, 'application/octet-stream', found.body);
        return done(200);
      },
    }),

    recheckRejection: operation({
      id,
      answers: { 200: recheckSchema },
      problems: ['rejection_without_body', 'verification_unavailable'],
      handle: async ({ id, actor }): Promise<Reply> => {
        const outcome = await rejections.recheck(id, actor);
        if (outcome.kind === 'done') return done(200, { ...outcome, hint: rejectionReasons[outcome.reason] });
        if (outcome.kind === 'unavailable') return problemLater('verification_unavailable', RETRY_SECONDS);
        return problem(outcome.kind === 'unknown' ? 'rejection_unknown' : 'rejection_without_body');
      },
    }),
  };
}

export type RejectionOperations = ReturnType<typeof rejectionOperations>;

/** A rejection as people see it: no digest, no secret. */
export function describeRejection(row: RejectionRecord): z.input<typeof rejectionSchema> {
  const { checked_at, checked_reason, signatures, ...rest } = row;
  return {
    ...rest,
    signatures: signatures.map(({ name, shape }) => ({ name, shape })),
    hint: rejectionReasons[row.reason],
    last_check:
      checked_at === null || checked_reason === null
        ? null
        : {
            at: checked_at,
            verified: checked_reason === 'verifies_now',
            reason: checked_reason,
            hint: rejectionReasons[checked_reason],
          },
  };
}

function previewOf(body: Buffer | null): { body_preview: string | null; body_preview_base64: string | null } {
  if (body === null) return { body_preview: null, body_preview_base64: null };
  const start = body.subarray(0, PREVIEW_BYTES_MAX);
  try {
    // As a stream, so that a character that the cut divides is left out instead of refused.
    const text = new TextDecoder('utf-8', { fatal: true }).decode(start, { stream: start.length < body.length });
    return { body_preview: text, body_preview_base64: null };
  } catch {
    return { body_preview: null, body_preview_base64: start.toString('base64') };
  }
}
