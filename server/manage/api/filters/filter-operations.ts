/** /api/v1/filters: tries a filter on stored events. */
import { z } from 'zod';
import { problem } from '../../../base/http/problem.ts';
import { DAY_MS } from '../../../base/time/durations.ts';
import type { FilterJudge } from '../../../deliver/claims/judge.ts';
import { filterText } from '../../../model/agents.ts';
import { cellsAway } from '../../../model/cells.ts';
import { eventFilterOf } from '../../../model/event-filter.ts';
import { idOf, receivedAt, recordId } from '../../../model/fields.ts';
import { type FilterVerdict, verdicts } from '../../../model/filters/evaluate.ts';
import { normalOrderBy, ORDER_BY_CHARACTERS_MAX, orderByFault, orderKeyReader } from '../../../model/order-by.ts';
import { readableBody } from '../../../model/signatures/gzip.ts';
import { readStoredHeaders } from '../../../model/signatures/stored-headers.ts';
import { PartialReads } from '../../../store/cells/cells-database.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { readEventsToTry } from '../../../store/queries/agents/filters.ts';
import { orderByProblem } from '../agents/subscriptions.ts';
import { EventSearch } from '../events/search.ts';
import { done, operation } from '../operation.ts';

/** Limit on the events of the last day that are counted. */
const COUNTED_EVENTS_MAX = 100_000;

/** @param judge evaluates the filter, in a thread */
export function filterOperations({ database, judge }: { database: Database; judge: FilterJudge }) {
  const search = new EventSearch(database);
  return {
    /** Changes nothing. */
    testFilter: operation({
      input: tryInput,
      answers: { 200: triedSchema.extend({ cells_away: cellsAway }) },
      problems: ['webhook_unknown', 'order_by_invalid'],
      handle: async ({ input, isGone }) => {
        const fault = input.order_by === undefined ? null : orderByFault(normalOrderBy(input.order_by), []);
        if (fault !== null) return orderByProblem(fault);
        const reads = new PartialReads(database);
        const tried = await tryFilter(reads, judge, input);
        if (tried === undefined) return problem('webhook_unknown');
        const from = new Date(Date.now() - DAY_MS).toISOString();
        const ofDay = {
          ...eventFilterOf({ webhook_id: input.webhook_id, from }, null, null),
          limit: COUNTED_EVENTS_MAX,
        };
        const counted = await search.count({ ...ofDay, isGone }, reads);
        return done(200, {
          ...tried,
          last_day: counted && lastDay(tried.items, counted, from),
          cells_away: reads.cellsAway,
        });
      },
    }),
  };
}

/** Events of one try. */
const EVENTS_DEFAULT = 50;
const TRIED_EVENTS_MAX = 200;
/** Limit on the bodies that one try reads, in bytes. Older events are left out. */
const BODY_BYTES_MAX = 4_194_304;

const tryInput = z.strictObject({
  webhook_id: recordId.describe('id of the webhook'),
  filter: filterText.default('true').describe('CEL expression, as of a subscription; absent: all events pass'),
  order_by: z
    .string()
    .optional()
    .describe('as of a subscription: the keys of the events are returned')
    .meta({ maxLength: ORDER_BY_CHARACTERS_MAX }),
  events: z.int().min(1).max(TRIED_EVENTS_MAX).default(EVENTS_DEFAULT).describe('number of its newest events to try'),
});

const verdictNames = ['undecided', 'passed', 'filtered', 'failed'] as const satisfies string[];

const triedSchema = z.object({
  passed: z.int().describe('events that would be delivered'),
  filtered: z.int().describe('events that would not be delivered'),
  failed: z.int().describe('events on which the expression fails; they would be delivered'),
  undecided: z.int().describe('events that were left out for time'),
  items: z
    .array(
      z.object({
        event_id: idOf('event'),
        event_type: z.string().nullable().describe('type of the event'),
        received_at: receivedAt,
        verdict: z.enum(verdictNames).describe('what would become of it'),
        reason: z.string().nullable().describe('why the expression fails; null: it does not'),
        key: z.string().nullable().describe('the key at order_by; null: the event has none, or order_by is absent'),
      }),
    )
    .describe('the events, newest first'),
  last_day: z
    .object({
      events: z.int().describe('events of the webhook in the last 24 hours'),
      passed: z.int().describe('how many of them would be delivered'),
      exact: z
        .boolean()
        .describe('false: the number is estimated from the events that were tried, or not all were counted'),
    })
    .nullable()
    .describe('null: too many other searches are running'),
});

type Tried = Omit<z.input<typeof triedSchema>, 'last_day'>;

/** Tries a filter on the newest events of a webhook. Undefined: there is no such webhook. */
async function tryFilter(
  database: Database,
  judge: FilterJudge,
  { webhook_id: webhookId, filter, order_by: orderBy, events }: z.output<typeof tryInput>,
): Promise<Tried | undefined> {
  const order = {
    webhookId,
    readsBody: filter.includes('body') || orderBy !== undefined,
    max: events,
    bytesMax: BODY_BYTES_MAX,
  };
  const found = await readEventsToTry(database, order);
  if (found === undefined) return undefined;
  // Pass the filter once for each event, so that each failure has its own reason.
  const judged = await judge.judge(
    found.map(() => filter),
    found.map((event, index) => ({ ...event, filter: index })),
  );
  const keyOf = orderBy === undefined ? null : orderKeyReader(normalOrderBy(orderBy));
  const reasons = new Map(judged.failures.map(({ filter: index, reason }) => [index, reason]));
  const count = (verdict: FilterVerdict) => judged.verdicts.filter((one) => one === verdict).length;
  return {
    passed: count(verdicts.passed),
    filtered: count(verdicts.excluded),
    failed: count(verdicts.failed),
    undecided: count(verdicts.undecided),
    items: found.map(({ id, eventType, receivedAt, headers, body }, index) => ({
      event_id: id,
      event_type: eventType,
      received_at: receivedAt,
      verdict: verdictNames[judged.verdicts[index]!]!,
      reason: reasons.get(index) ?? null,
      key: keyOf && keyOfStored(keyOf, headers, body),
    })),
  };
}

function keyOfStored(
  keyOf: NonNullable<ReturnType<typeof orderKeyReader>>,
  lines: Uint8Array,
  body: Uint8Array | null,
) {
  const headers = readStoredHeaders(Buffer.from(lines).toString());
  return keyOf({ header: (name) => headers[name] }, readableBody(Buffer.from(body ?? []), headers['content-encoding']));
}

/** Estimates how many of the counted events since `from` would be delivered, by the share among the tried events. */
function lastDay(
  tried: Tried['items'],
  { count: events, exact }: { count: number; exact: boolean },
  from: string,
): NonNullable<z.input<typeof triedSchema>['last_day']> {
  const judged = tried.filter(({ received_at, verdict }) => received_at >= from && verdict !== 'undecided');
  const passed = judged.filter(({ verdict }) => verdict !== 'filtered').length;
  const share = judged.length === 0 ? 1 : passed / judged.length;
  return { events, passed: Math.round(events * share), exact: exact && judged.length === events };
}
