/** /api/v1/rejections: requests with a refused signature, the reason, and whether they verify now. */

import { groupRejections, listAcceptable, readRejections } from '../../db/queries/rejection-groups.ts';
import { findRejection, listRejections } from '../../db/queries/rejections.ts';
import { problem, problemLater } from '../../http/problem.ts';
import { type RejectionParts, Rejections } from '../../rejections/recheck.ts';
import {
  recheckSchema,
  rejectionDetailSchema,
  rejectionFixed,
  rejectionGroupSchema,
  rejectionSchema,
  rejectionsAccepted,
} from '../../resources/rejections.ts';
import { readStoredHeaders } from '../../signatures/stored-headers.ts';
import { done, operation } from '../operation.ts';
import { eventId, listSchema, pageOf, pageSchema } from '../paging.ts';
import { storedBytes, storedBytesReply } from '../stored-bytes.ts';
import type { WebhookParts } from '../webhooks/service.ts';
import { fixRejection } from './fix.ts';
import {
  acceptedSchema,
  acceptManyInput,
  describeRejection,
  fixInput,
  groupQuery,
  previewOf,
  rejectionQuery,
} from './schema.ts';

const RETRY_SECONDS = 1;
const id = { schema: eventId, problem: 'rejection_unknown' } as const;

/** Problem codes when a rejection cannot be accepted. */
const notAccepted = {
  unknown: 'rejection_unknown',
  disabled: 'webhook_disabled',
  of_batch: 'rejection_of_batch',
  without_body: 'rejection_without_body',
  unverified: 'rejection_unverified',
} as const;

/** Rejections that one request accepts. */
const ACCEPTED_MAX = 100;

export function rejectionOperations(parts: RejectionParts & WebhookParts) {
  const { database } = parts;
  const rejections = new Rejections(parts);
  return {
    listRejections: operation({
      query: rejectionQuery,
      answers: { 200: pageSchema(rejectionSchema) },
      handle: async ({ query }) => {
        const filter = { webhookId: query.webhook_id ?? null, reason: query.reason ?? null };
        const rows = await listRejections(database, filter, query.cursor ?? null, query.limit + 1);
        return done(200, pageOf(rows, query.limit, describeRejection));
      },
    }),

    listRejectionGroups: operation({
      query: groupQuery,
      answers: { 200: listSchema(rejectionGroupSchema) },
      handle: async ({ query }) => {
        const groups = await groupRejections(database, query.webhook_id ?? null, query.limit);
        const rows = await readRejections(
          database,
          groups.flatMap(({ newest }) => newest),
        );
        const newestOf = (ids: readonly string[]) => rows.filter(({ id }) => ids.includes(id)).map(describeRejection);
        return done(200, { items: groups.map((group) => ({ ...group, newest: newestOf(group.newest) })) });
      },
    }),

    fixRejection: operation({
      id,
      input: fixInput,
      answers: { 200: rejectionFixed },
      problems: ['webhook_unknown', 'precondition_failed', 'name_taken', 'verification_unavailable'],
      handle: async ({ id, input, actor }) => {
        const outcome = await fixRejection(parts, rejections, id, input, actor);
        return outcome.kind === 'fixed' ? done(200, outcome.body) : outcome;
      },
    }),

    acceptRejections: operation({
      input: acceptManyInput,
      answers: { 200: rejectionsAccepted },
      handle: async ({ input: { webhook_id }, actor }) => {
        const ids = await listAcceptable(database, webhook_id, ACCEPTED_MAX + 1);
        let accepted = 0;
        // One after the other, oldest first, so that the events keep the order of the requests.
        for (const one of ids.slice(0, ACCEPTED_MAX)) {
          const { kind } = await rejections.accept(one, actor);
          if (kind === 'stored' || kind === 'known') accepted++;
        }
        const more = ids.length > ACCEPTED_MAX;
        return done(200, { accepted, refused: Math.min(ids.length, ACCEPTED_MAX) - accepted, more });
      },
    }),

    showRejection: operation({
      id,
      answers: { 200: rejectionDetailSchema },
      handle: async ({ id }) => {
        const found = await findRejection(database.query, id);
        if (found === undefined) return problem('rejection_unknown');
        const headers = readStoredHeaders(found.headers);
        return done(200, {
          ...describeRejection(found),
          headers,
          content_type: headers['content-type'] ?? null,
          ...previewOf(found.body),
        });
      },
    }),

    showRejectionBody: operation({
      id,
      answers: { 200: null },
      bytes: storedBytes,
      problems: ['rejection_without_body'],
      handle: async ({ id }) => {
        const found = await findRejection(database.query, id);
        if (found === undefined) return problem('rejection_unknown');
        if (found.body === null) return problem('rejection_without_body');
        const contentType = readStoredHeaders(found.headers)['content-type'] ?? null;
        return storedBytesReply(found.id, contentType, found.body);
      },
    }),

    recheckRejection: operation({
      id,
      answers: { 200: recheckSchema },
      problems: ['rejection_without_body', 'verification_unavailable'],
      handle: async ({ id, actor }) => {
        const outcome = await rejections.recheck(id, actor);
        if (outcome.kind === 'done') return done(200, describeRejection(outcome.rejection).last_check!);
        if (outcome.kind === 'unavailable') return problemLater('verification_unavailable', RETRY_SECONDS);
        return problem(outcome.kind === 'unknown' ? 'rejection_unknown' : 'rejection_without_body');
      },
    }),

    acceptRejection: operation({
      id,
      answers: { 201: acceptedSchema, 200: acceptedSchema },
      problems: [...Object.values(notAccepted), 'verification_unavailable'],
      handle: async ({ id, actor }) => {
        const outcome = await rejections.accept(id, actor);
        if (outcome.kind === 'stored') return done(201, { event_id: outcome.eventId });
        if (outcome.kind === 'known') return done(200, { event_id: outcome.eventId });
        if (outcome.kind === 'unavailable') return problemLater('verification_unavailable', RETRY_SECONDS);
        return problem(notAccepted[outcome.kind]);
      },
    }),
  };
}
