/** /api/v1/webhooks. */
import { z } from 'zod';
import { problem } from '../../../base/http/problem.ts';
import type { Settings } from '../../../base/settings/read.ts';
import { DAY_MS } from '../../../base/time/durations.ts';
import { keptFor } from '../../../base/time/shared-check.ts';
import { cellsAway } from '../../../model/cells.ts';
import { eventTypeSchema } from '../../../model/events.ts';
import { recordId, text } from '../../../model/fields.ts';
import { usageSchema, webhookActivitySchema } from '../../../model/history.ts';
import { rotateInput, secretSchema } from '../../../model/webhook-secrets.ts';
import { webhookInput, webhookSchema } from '../../../model/webhooks.ts';
import type { Actor } from '../../../store/audit/record.ts';
import { PartialReads } from '../../../store/cells/cells-database.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { countEventTypes, TYPED_EVENTS_MAX } from '../../../store/queries/events/lists.ts';
import { readSecretUses } from '../../../store/queries/webhooks/secrets.ts';
import {
  ACTIVE_WEBHOOKS_MAX,
  readTableBytes,
  readWebhookActivity,
  readWebhookUsage,
} from '../../../store/queries/webhooks/usage.ts';
import { findWebhook, listWebhooks, type WebhookRecord } from '../../../store/queries/webhooks/webhooks.ts';
import { agentIdOf, type Reader } from '../../auth/person.ts';
import { done, operation, readerOperation, refusedId, replyTo } from '../operation.ts';
import { flag, flagValue, idList, listSchema, pageOf, pageSchema, recordPageQuery } from '../paging.ts';
import { requestOperations } from './requests.ts';
import { type SendTest, testInput, testSchema } from './test-request.ts';
import { type WebhookParts, Webhooks } from './webhook-changes.ts';

/** The size of the tables is cached: the list refreshes itself, and the size changes slowly. */
const TABLES_VALID_MS = 10_000;
const id = { schema: recordId, problem: 'webhook_unknown' } as const;
const withSecret = webhookSchema.extend({
  secret: z.string().optional().describe('a generated secret, shown only in this response'),
});
const listQuery = z.strictObject({
  ...recordPageQuery,
  enabled: flag.optional().describe('true: only enabled webhooks; false: only disabled webhooks'),
  q: text(1, 200).optional().describe('part of the name, case-insensitive'),
});

const activityQuery = z.strictObject({ webhook_ids: idList(ACTIVE_WEBHOOKS_MAX, 'webhooks').optional() });

/** @param send sends a test request to a webhook of this process */
export function webhookOperations(parts: WebhookParts, settings: Settings, send: SendTest) {
  const input = webhookInput(settings);
  const { database } = parts;
  const by = (actor: Actor) => new Webhooks(parts, actor);
  const describe = describeWebhook(settings.FRONTEND_PUBLIC_API_URL);
  const expects = (matches: (row: unknown) => boolean) => (current: WebhookRecord) => matches(describe(current));
  const tableBytes = keptFor(TABLES_VALID_MS, () => readTableBytes(database));

  return {
    /** An agent sees only the webhooks that it is subscribed to. */
    listWebhooks: readerOperation({
      query: listQuery,
      answers: { 200: pageSchema(webhookSchema) },
      handle: async ({ who, query: { enabled, q, cursor, limit } }) => {
        const filter = { agentId: agentIdOf(who), enabled: flagValue(enabled), contains: q ?? null };
        const rows = await listWebhooks(database, filter, cursor ?? null, limit + 1);
        return done(
          200,
          pageOf(rows, limit, (row) => describe(seenBy(who, row))),
        );
      },
    }),

    /** A separate route: as part of the webhooks it would change their entity tags all the time. */
    listWebhookActivity: operation({
      query: activityQuery,
      answers: { 200: listSchema(webhookActivitySchema) },
      handle: async ({ query }) => done(200, { items: await readWebhookActivity(database, query.webhook_ids ?? null) }),
    }),

    listWebhookUsage: operation({
      query: activityQuery,
      answers: { 200: usageSchema },
      handle: async ({ query }) => {
        const [items, tables] = await Promise.all([
          readWebhookUsage(database, query.webhook_ids ?? null),
          tableBytes(Date.now()),
        ]);
        return done(200, { items, tables });
      },
    }),

    createWebhook: operation({
      idempotent: true,
      input: input.create,
      answers: { 201: withSecret },
      problems: ['cell_unknown', 'cell_unfit', 'answer_invalid', 'id_taken'],
      handle: async ({ who, actor, input }) =>
        refusedId(who, input) ??
        replyTo(await by(actor).add(input), (made) =>
          done(201, describe(made), { location: `/api/v1/webhooks/${made.id}` }),
        ),
    }),

    showWebhook: readerOperation({
      id,
      answers: { 200: webhookSchema },
      handle: async ({ who, id }) => {
        const webhook = await findWebhook(database.query, id);
        const agentId = agentIdOf(who);
        if (webhook === undefined || (agentId !== null && !webhook.agent_ids.includes(agentId)))
          return problem('webhook_unknown');
        return done(200, describe(seenBy(who, webhook)));
      },
    }),

    updateWebhook: operation({
      id,
      input: input.update,
      answers: { 200: webhookSchema },
      problems: ['answer_invalid'],
      representation: webhookSchema,
      handle: async ({ actor, id, input, matches }) =>
        replyTo(await by(actor).update(id, input, expects(matches)), (webhook) => done(200, describe(webhook))),
    }),

    deleteWebhook: operation({
      id,
      answers: { 204: null },
      representation: webhookSchema,
      handle: async ({ actor, id, matches }) => replyTo(await by(actor).remove(id, expects(matches)), () => done(204)),
    }),

    listSecrets: operation({
      id,
      answers: { 200: listSchema(secretSchema) },
      handle: async ({ id }) => {
        if ((await findWebhook(database.query, id)) === undefined) return problem('webhook_unknown');
        return done(200, { items: await readSecretUses(database, id) });
      },
    }),

    listEventTypes: listEventTypes(database),
    ...requestOperations(database),

    testWebhook: operation({
      id,
      input: testInput,
      answers: { 200: testSchema },
      handle: async ({ actor, id, input, exchange }) => {
        const webhook = await findWebhook(database.query, id);
        if (webhook === undefined) return problem('webhook_unknown');
        const tested = await send(webhook, input, exchange.requestId);
        await by(actor).recordTest(webhook, tested.status);
        return done(200, tested);
      },
    }),

    endPreviousSecret: operation({
      id,
      answers: { 204: null },
      problems: ['secret_unknown'],
      representation: webhookSchema,
      handle: async ({ actor, id, matches }) =>
        replyTo(await by(actor).endPreviousSecret(id, expects(matches)), () => done(204)),
    }),

    rotateSecret: operation({
      idempotent: true,
      id,
      input: rotateInput,
      answers: { 200: withSecret },
      representation: webhookSchema,
      handle: async ({ actor, id, input, matches }) =>
        replyTo(await by(actor).rotate(id, input, expects(matches)), (webhook) => done(200, describe(webhook))),
    }),
  };
}

/** @param base FRONTEND_PUBLIC_API_URL, the base URL for senders */
export function describeWebhook(base: string) {
  return <Row extends WebhookRecord>(row: Row): Row & { url: string } => ({ ...row, url: `${base}/in/${row.id}` });
}

/** An agent does not see the other subscribed agents. */
function seenBy(who: Reader, webhook: WebhookRecord): WebhookRecord {
  const agentId = agentIdOf(who);
  return agentId === null ? webhook : { ...webhook, agent_ids: [agentId] };
}

const SPAN_MS = 7 * DAY_MS;

const typesSchema = z.object({
  items: z.array(eventTypeSchema).describe('the most frequent type first, at most 100'),
  complete: z.boolean().describe(`false: only the newest ${TYPED_EVENTS_MAX} events are counted`),
  since: z.iso.datetime().describe('events received at this time or later are counted'),
  cells_away: cellsAway,
});

/** GET /api/v1/webhooks/{id}/event-types: the types of a webhook's events of the last seven days, with their numbers. */
function listEventTypes(database: Database) {
  return operation({
    id: { schema: recordId, problem: 'webhook_unknown' },
    answers: { 200: typesSchema },
    handle: async ({ id }) => {
      if ((await findWebhook(database.query, id)) === undefined) return problem('webhook_unknown');
      const from = new Date(Date.now() - SPAN_MS).toISOString();
      const reads = new PartialReads(database);
      const { items, counted, since } = await countEventTypes(reads, id, from);
      const complete = counted < TYPED_EVENTS_MAX;
      return done(200, { items, complete, since: complete ? from : since!, cells_away: reads.cellsAway });
    },
  });
}
