/** /api/v1/events, /events/{id} and /events/{id}/body. */
import { z } from 'zod';
import { problem, problemLater } from '../../../base/http/problem.ts';
import type { FilterJudge } from '../../../deliver/claims/judge.ts';
import { cellsAway } from '../../../model/cells.ts';
import { eventCountQuery, eventFilterOf } from '../../../model/event-filter.ts';
import { eventDeliveriesSchema, eventSchema } from '../../../model/events.ts';
import { idOf } from '../../../model/fields.ts';
import { PartialReads } from '../../../store/cells/cells-database.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { findEvent } from '../../../store/queries/events/events.ts';
import { askEveryCell, countDeliveriesOf } from '../../../store/queries/events/lists.ts';
import type { ReplayScope } from '../../../store/queries/replays/events.ts';
import { agentIdOf } from '../../auth/person.ts';
import { createReplayJob } from '../jobs/job-operations.ts';
import { done, operation, readerOperation, replyTo } from '../operation.ts';
import { eventId, listSchema, listUpTo, searchedPageOf } from '../paging.ts';
import { storedBytes, storedBytesReply } from '../stored-bytes.ts';
import { ExportSlots, exportFormats, exportText, noSlot, sendParts } from './export.ts';
import {
  beyondSubscriptions,
  describeEvent,
  eventExportQuery,
  eventListQuery,
  eventPageSchema,
  replayAgents,
  replayManyInput,
} from './filter.ts';
import { previewReplay, previewSchema, replayEvent } from './replay.ts';
import { EventSearch } from './search.ts';

const id = { schema: eventId, problem: 'event_unknown' } as const;

const eventReplayInput = z.strictObject({ agent_ids: replayAgents, beyond_subscriptions: beyondSubscriptions });

/** Events whose deliveries one request counts. */
const EVENTS_COUNTED_MAX = 200;
/** Limit of `countEvents`. */
const COUNTED_EVENTS_MAX = 1_000;

const eventCountSchema = z.object({
  count: z.int().describe(`matching events, at most ${COUNTED_EVENTS_MAX}`),
  exact: z.boolean().describe('false: there are more, or the time limit of the count was reached'),
  cells_away: cellsAway,
});

const deliveriesQuery = z.strictObject({
  event_ids: listUpTo(
    EVENTS_COUNTED_MAX,
    eventId.transform((id) => id.toLowerCase()),
  )
    .optional()
    .describe(
      `ids of events separated by commas, at most ${EVENTS_COUNTED_MAX}; events without deliveries are omitted`,
    ),
});

/**
 * In lists and details an agent sees only the events that were delivered to it.
 * @param judge evaluates filters for replays; claims have another judge
 * @param unreadSeconds CLIENT_UNREAD_SECONDS
 */
export function eventOperations(
  { database, judge }: { database: Database; judge: FilterJudge },
  unreadSeconds: number,
) {
  const search = new EventSearch(database);
  const slots = new ExportSlots();
  return {
    listEvents: readerOperation({
      query: eventListQuery,
      answers: { 200: eventPageSchema },
      problems: ['search_busy'],
      handle: async ({ who, query, isGone }) => {
        const { cursor = null, limit } = query;
        const reads = new PartialReads(database);
        const order = { ...eventFilterOf(query, agentIdOf(who), cursor), limit: limit + 1, isGone };
        const found = await search.find(order, reads);
        if (found === null) return problemLater('search_busy', 1);
        return done(200, { ...searchedPageOf(found, limit, describeEvent), cells_away: reads.cellsAway });
      },
    }),

    countEvents: operation({
      query: eventCountQuery,
      answers: { 200: eventCountSchema },
      problems: ['search_busy'],
      handle: async ({ query, isGone }) => {
        const reads = new PartialReads(database);
        const order = { ...eventFilterOf(query, null, null), limit: COUNTED_EVENTS_MAX, isGone };
        const counted = await search.count(order, reads);
        if (counted === null) return problemLater('search_busy', 1);
        return done(200, { ...counted, cells_away: reads.cellsAway });
      },
    }),

    /** Newest first. */
    exportEvents: operation({
      query: eventExportQuery,
      answers: { 200: null },
      bytes: { contentTypes: Object.values(exportFormats) },
      problems: ['exports_full', 'user_exports_full'],
      handle: async ({ who, query, exchange, isGone }) => {
        const { format } = query;
        // Before the export begins: its response cannot report later that a cell is away.
        await askEveryCell(database);
        const slot = who.via.kind === 'local' ? noSlot : slots.enter(who.id);
        if (slot.kind === 'problem') return slot;
        exchange.setHeader('content-disposition', `attachment; filename="events.${format}"`);
        const answer = exchange.stream(exportFormats[format]);
        if (answer === null) {
          slot.leave();
          return { kind: 'streaming' };
        }
        const given = { ...eventFilterOf(query, null, query.cursor ?? null), format, bodies: query.bodies === 'true' };
        const parts = exportText({ database, search }, given, isGone);
        void sendParts(exchange, answer, parts, { slots, stalledMs: unreadSeconds * 1000 }).finally(slot.leave);
        return { kind: 'streaming' };
      },
    }),

    /** A separate route: states change all the time, events never. */
    countEventDeliveries: operation({
      query: deliveriesQuery,
      answers: { 200: listSchema(eventDeliveriesSchema).extend({ cells_away: cellsAway }) },
      handle: async ({ query }) => {
        const reads = new PartialReads(database);
        const items = await countDeliveriesOf(reads, query.event_ids ?? []);
        return done(200, { items, cells_away: reads.cellsAway });
      },
    }),

    showEvent: readerOperation({
      id,
      answers: { 200: eventSchema },
      handle: async (request) => {
        const event = await findEvent(database, agentIdOf(request.who), request.id);
        return event === undefined ? problem('event_unknown') : done(200, describeEvent(event));
      },
    }),

    showEventBody: readerOperation({
      id,
      answers: { 200: null },
      bytes: storedBytes,
      handle: async ({ who, id }) => {
        const event = await findEvent(database, agentIdOf(who), id);
        if (event === undefined) return problem('event_unknown');
        return storedBytesReply(event.id, event.content_type, event.body);
      },
    }),

    replayEvent: operation({
      idempotent: true,
      id,
      input: eventReplayInput,
      answers: { 201: z.object({ delivery_ids: z.array(z.guid()).describe('the new deliveries') }) },
      problems: ['no_recipients'],
      handle: async ({ id, input, actor }) => {
        const replayed = await replayEvent({ database, judge }, actor, id, scopeOf(input));
        return replyTo(replayed, (delivery_ids) => done(201, { delivery_ids }));
      },
    }),

    /** Creates a job for all events that match the filter and were received until now. */
    replayEvents: operation({
      idempotent: true,
      input: replayManyInput,
      answers: { 200: previewSchema, 202: z.object({ job_id: idOf('job') }) },
      problems: ['no_recipients', 'jobs_full', 'search_busy'],
      handle: async ({ input: { agent_ids, beyond_subscriptions, preview, ...filter }, actor, isGone }) => {
        const scope = scopeOf({ agent_ids, beyond_subscriptions });
        if (preview === true) {
          const order = { ...eventFilterOf(filter, null, null), agentIds: scope.agentIds, isGone };
          const previewed = await previewReplay({ database, search }, order);
          // The client has left, so the numbers are incomplete: they must not be stored for an Idempotency-Key.
          return isGone() ? { kind: 'gone' } : replyTo(previewed, (body) => done(200, body));
        }
        const created = await createReplayJob(database, actor, { filter, ...scope });
        return replyTo(created, (id) => done(202, { job_id: id }, { location: `/api/v1/jobs/${id}` }));
      },
    }),
  };
}

function scopeOf({ agent_ids, beyond_subscriptions }: z.output<typeof eventReplayInput>): ReplayScope {
  return { agentIds: agent_ids ?? null, beyondSubscriptions: beyond_subscriptions ?? false };
}
