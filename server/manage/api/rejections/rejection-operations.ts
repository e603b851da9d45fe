/** /api/v1/rejections: requests with a refused signature, the reason, and whether they verify now. */
import type { z } from 'zod';
import { invalid, mapped, problem, type Result } from '../../../base/http/problem.ts';
import {
  recheckSchema,
  rejectionDetailSchema,
  rejectionFixed,
  rejectionGroupsSchema,
  rejectionSchema,
  rejectionsAccepted,
} from '../../../model/rejections.ts';
import { readStoredHeaders } from '../../../model/signatures/stored-headers.ts';
import { fixesOf } from '../../../receive/rejections/fixes.ts';
import { type RejectionParts, Rejections } from '../../../receive/rejections/recheck.ts';
import type { Actor } from '../../../store/audit/record.ts';
import {
  countKept,
  findRejection,
  groupRejections,
  listAcceptable,
  listRejections,
  readRejections,
} from '../../../store/queries/rejections/rejections.ts';
import { done, operation, replyTo } from '../operation.ts';
import { eventId, pageOf, pageSchema } from '../paging.ts';
import { storedBytes, storedBytesReply } from '../stored-bytes.ts';
import { type WebhookParts, Webhooks } from '../webhooks/webhook-changes.ts';
import {
  acceptedSchema,
  acceptManyInput,
  describeRejection,
  fixInput,
  groupQuery,
  previewOf,
  rejectionQuery,
} from './schema.ts';

const id = { schema: eventId, problem: 'rejection_unknown' } as const;

/** Rejections that one request accepts. */
const ACCEPTED_MAX = 100;

/** A fix changes the webhook; accepting a rejection creates an event. Both write audit entries. */
export function rejectionOperations(parts: RejectionParts & WebhookParts) {
  const { database } = parts;
  const rejections = new Rejections(parts);
  return {
    listRejections: operation({
      query: rejectionQuery,
      answers: { 200: pageSchema(rejectionSchema) },
      handle: async ({ query }) => {
        const { webhook_id: webhookId = null, reason = null, from = null, to = null } = query;
        const filter = { webhookId, reason, from, to };
        const rows = await listRejections(database, filter, query.cursor ?? null, query.limit + 1);
        return done(200, pageOf(rows, query.limit, describeRejection));
      },
    }),

    listRejectionGroups: operation({
      query: groupQuery,
      answers: { 200: rejectionGroupsSchema },
      handle: async ({ query }) => {
        const webhookId = query.webhook_id ?? null;
        const [groups, counts] = await Promise.all([
          groupRejections(database, webhookId, query.limit),
          countKept(database, webhookId),
        ]);
        const rows = await readRejections(
          database,
          groups.flatMap(({ newest }) => newest),
        );
        const newestOf = (ids: readonly string[]) => rows.filter(({ id }) => ids.includes(id)).map(describeRejection);
        return done(200, { items: groups.map((group) => ({ ...group, newest: newestOf(group.newest) })), ...counts });
      },
    }),

    fixRejection: operation({
      id,
      input: fixInput,
      answers: { 200: rejectionFixed },
      problems: ['webhook_unknown', 'precondition_failed', 'name_taken', 'verification_unavailable'],
      handle: async ({ id, input, actor }) => {
        const fixed = await fixRejection(parts, rejections, id, input, actor);
        return replyTo(fixed, (body) => done(200, body));
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
          if ((await rejections.accept(one, actor)).kind === 'done') accepted++;
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
        const checked = await rejections.recheck(id, actor);
        return replyTo(checked, (rejection) => done(200, describeRejection(rejection).last_check!));
      },
    }),

    acceptRejection: operation({
      id,
      answers: { 201: acceptedSchema, 200: acceptedSchema },
      problems: [
        'webhook_disabled',
        'rejection_of_batch',
        'rejection_without_body',
        'rejection_unverified',
        'verification_unavailable',
        'webhook_moving',
      ],
      handle: async ({ id, actor }) => {
        const accepted = await rejections.accept(id, actor);
        return replyTo(accepted, ({ eventId, isNew }) => done(isNew ? 201 : 200, { event_id: eventId }));
      },
    }),
  };
}

type FixInput = z.output<typeof fixInput>;

/** How long the secret that a fix replaces stays valid: other senders of the webhook may have it. */
const OVERLAP_SECONDS = 86_400;

/** Changes the webhook, with an audit entry, then checks the similar rejections again, with another entry. */
async function fixRejection(
  parts: WebhookParts,
  rejections: Rejections,
  id: string,
  input: FixInput,
  actor: Actor,
): Promise<Result<z.input<typeof rejectionFixed>>> {
  const rejection = await findRejection(parts.database.query, id);
  if (rejection === undefined) return problem('rejection_unknown');
  const fix = fixesOf(rejection).find(({ kind }) => kind === input.kind);
  if (fix === undefined) return invalid('/kind', 'This is not among the fixes of the rejection.');
  if (input.kind === 'set_scheme' && !fix.schemes.includes(input.signature_scheme))
    return invalid('/signature_scheme', `The fix takes one of these schemes: ${fix.schemes.join(', ')}.`);
  const patch =
    input.kind === 'use_header'
      ? { signature_header: rejection.header }
      : input.kind === 'set_scheme'
        ? { signature_scheme: input.signature_scheme, public_key: input.public_key }
        : {};
  const secret = input.kind === 'use_header' ? null : input.secret;
  const overlap = input.kind === 'set_secret' ? OVERLAP_SECONDS : 0;
  const changed = await new Webhooks(parts, actor).reconfigure(rejection.webhook_id, patch, secret, overlap);
  if (changed.kind === 'problem') return changed;
  const again = await rejections.recheckSimilar(rejection, { fix: input.kind, ...patch }, actor);
  return mapped(again, (counts) => ({ webhook_id: rejection.webhook_id, ...counts }));
}
