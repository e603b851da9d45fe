/** /events: the list with its filters, one event, and its replay. */

import { isUtf8 } from 'node:buffer';
import { setTimeout as delay } from 'node:timers/promises';
import { problem } from '../../base/http/problem.ts';
import { HOUR_MS } from '../../base/time/durations.ts';
import type { FilterJudge } from '../../deliver/claims/judge.ts';
import { describeEvent } from '../../manage/api/events/filter.ts';
import { judgeRecipients } from '../../manage/api/events/replay.ts';
import { isTestHeader } from '../../manage/api/webhooks/test-request.ts';
import { eventCountQuery, eventFilterOf } from '../../model/event-filter.ts';
import { readableBody } from '../../model/signatures/gzip.ts';
import { allows } from '../../model/users.ts';
import { isUnverified } from '../../model/webhook-schemes.ts';
import type { Database } from '../../store/connect/pool.ts';
import { isTimedId, uuidv7Time } from '../../store/ids.ts';
import { readAttempts } from '../../store/queries/deliveries/history.ts';
import { findEvent } from '../../store/queries/events/events.ts';
import { findNeighbours, findPreviousOfType } from '../../store/queries/events/neighbours.ts';
import { eventDeliveries } from '../activity.ts';
import { filtersOf, formErrors, list, noErrors } from '../forms/form.ts';
import { choicesOf, idsOf, listBy, namesOf } from '../names.ts';
import { asProblem, type Call, type Page, partOf, redirect, view } from '../page.ts';
import { commandDefinition, type SignedTarget, signedCurl } from '../samples/curl.ts';
import { address } from '../show.ts';
import { diffOf, showBody } from './body/view.ts';
import { lifeOf } from './life.ts';
import { isEditable, sendAgainPages } from './send-again.ts';

/** Filters of the list, by the names that users see. */
export const filterLabels = {
  webhook_id: 'Webhook',
  type: 'Type',
  delivery_state: 'Delivery',
  content_type: 'Content type',
  source: 'From address',
  header: 'Header',
  q: 'Body',
  from: 'Since',
  to: 'Before',
} as const;
export type FilterName = keyof typeof filterLabels;
const filterNames = [...(Object.keys(filterLabels) as FilterName[]), 'cursor'] as const;
/** Time limit of the search with which a page begins, and of the count beside it. Requests that continue the search have that of the API. */
const FIRST_MS = 40;
/** Pause before a page continues a search, so that other requests get the connection. */
const CONTINUE_MS = 50;
/** The pause while SEARCHES_MAX other searches run. */
const BUSY_MS = 2_000;
/** Prefix of the id of an agent that gets the event only if its subscriptions and filters are ignored. */
const BEYOND = /^beyond:/;
/** Largest body that is shown in a shell command; a longer command is unreadable. */
const CURL_BYTES_MAX = 4_096;

/**
 * The pages of events.
 * @param judge evaluates filters; claims have another judge
 * @param reachMs FILTER_TIMEOUT_MS: how long the page of an event waits for the filters to say which agents a replay reaches. Then it leaves
 * that out.
 */
export function eventPages(database: Database, judge: FilterJudge, reachMs: number) {
  const eventList: Page = async ({ call, query }) => {
    const given = filtersOf(query, filterNames);
    const [from, to] = query.get('range')?.split('/') ?? [];
    if (from !== undefined) return redirect(address('/events', { ...given, from, to }));
    const { filters, listed } = await listBy(call, 'listEvents', given, given.cursor ? {} : { withinMs: FIRST_MS });
    if (listed.kind === 'problem' && listed.code !== 'search_busy') return listed;
    // Too many other searches run: a page that continues its search by itself asks again later.
    const waits = listed.kind === 'problem' && filters.cursor !== undefined && isTimedId(filters.cursor);
    const page =
      listed.kind === 'done'
        ? listed.body
        : waits
          ? { items: [], next_cursor: filters.cursor!, complete: false, searched_to: uuidv7Time(filters.cursor!) }
          : { items: [], next_cursor: null, complete: true, searched_to: null };
    const { errors, ...feedback } = listed.kind === 'done' || waits ? noErrors : formErrors(listed);
    const ids = page.items.map((event) => event.webhook_id);
    // No count is needed: the page has all events, or its search continues.
    const isCounted = (page.next_cursor === null && filters.cursor === undefined) || page.searched_to !== null;
    const [webhooks, deliveries, counted, types] = await Promise.all([
      choicesOf(call, 'webhooks', [...ids, filters.webhook_id]),
      eventDeliveries(
        call,
        page.items.map(({ id }) => id),
      ),
      isCounted ? null : countOf(call, filters),
      typeChoices(call, filters.webhook_id, page.items),
    ]);
    const count = counted ?? { count: page.items.length, exact: page.complete };
    // The requests that continue a search end the range where this one does, so that they find no newer events.
    const end = filters.to ?? new Date().toISOString();
    const search = page.searched_to !== null && { to: end, delay: waits ? BUSY_MS : CONTINUE_MS };
    return view(
      'events/list',
      'Events',
      { filters, page, errors, webhooks, deliveries, count, types, presets: presetsOf(filters), search },
      feedback,
    );
  };

  const showEvent: Page = async ({ call, id, query, person }) => {
    // Read the event directly, once: the API operation omits the body.
    const stored = isTimedId(id) ? await findEvent(database, null, id.toLowerCase()) : undefined;
    if (stored === undefined) return problem('event_unknown');
    const event = describeEvent(stored);
    const encoding = event.headers['content-encoding'];
    const body = readableBody(stored.body, encoding);
    const shown = showBody(body, event.content_type, query.get('view'), query.get('values') === 'all');
    const filters = listFilters(query);
    const near = eventFilterOf(filters ?? { webhook_id: event.webhook_id }, null, null);
    const [deliveries, attempts, neighbours, webhook, replayTo, reach, previous] = await Promise.all([
      call('listDeliveries', { query: { event_id: id, limit: '200' } }),
      readAttempts(database, { eventId: event.id }, Date.now()),
      findNeighbours(database, event.id, near.filter, near.span),
      call('showWebhook', { id: event.webhook_id }),
      choicesOf(call, 'agents', [], { active: true }),
      allows(person.role, 'operator')
        ? Promise.race([judgeRecipients({ database, judge }, stored, null), delay(reachMs, null, { ref: false })])
        : null,
      shown.view === 'diff' ? findPreviousOfType(database, event) : undefined,
    ]);
    const known = webhook.kind === 'done' ? webhook.body : null;
    const listed = deliveries.kind === 'done' ? deliveries.body.items : [];
    const agents = await namesOf(
      call,
      'agents',
      listed.map(({ agent_id }) => agent_id),
    );
    const verified = known !== null && !isUnverified(known);
    return view('events/show', `${event.event_type ?? 'Event'} ${id.slice(-8)}`, {
      event,
      webhook: known,
      agents,
      replayTo,
      reach: reach && {
        subscribed: [...reach.passing, ...reach.undecided],
        excluded: reach.excluded.map(({ agentId }) => agentId),
      },
      headers: sendersFirst(event.headers),
      neighbours,
      editable: known !== null && isEditable(body),
      attempts,
      filters: filters ?? {},
      body: shown,
      decompressedBytes: body === stored.body ? null : body.length,
      diff:
        shown.view === 'diff'
          ? diffOf(body, previous && { ...previous, body: readableBody(previous.body, encoding) })
          : null,
      deliveries: listed,
      life: lifeOf({ event, verified, deliveries: listed, attempts }),
      curl: known && curlOf(known, event, body),
    });
  };

  const replayEvent: Page = async ({ call, id, form }) => {
    const chosen = list(form, 'agent_id');
    const agents = await idsOf(
      call,
      'agents',
      chosen.map((one) => one.replace(BEYOND, '')),
    );
    if ('error' in agents) return asProblem({ kind: 'invalid', errors: { '': agents.error } });
    const input = {
      ...(agents.ids.length > 0 ? { agent_ids: agents.ids } : {}),
      beyond_subscriptions: form.has('beyond') || chosen.some((one) => BEYOND.test(one)),
    };
    const replayed = await call('replayEvent', { id, input });
    return replayed.kind === 'done' ? redirect(`/events/${id}`, 'replayed') : asProblem(replayed);
  };

  return { eventList, showEvent, replayEvent, ...sendAgainPages(database) };
}

/** The filters of the list that the event was opened from; null: it had none. */
function listFilters(query: URLSearchParams) {
  const given = eventCountQuery.safeParse(filtersOf(query, Object.keys(filterLabels)));
  return given.success && Object.keys(given.data).length > 0 ? given.data : null;
}

/** The header fields, those that only the sender uses (`x-…`) first. */
function sendersFirst(headers: Record<string, string>): [string, string][] {
  const all = Object.entries(headers);
  const isOwn = ([name]: [string, string]) => name.startsWith('x-') && !name.startsWith('x-forwarded');
  return [...all.filter(isOwn), ...all.filter((one) => !isOwn(one))];
}

type Filters = Partial<Record<FilterName | 'cursor', string>>;

/** Labels and values of the filters that are set. A webhook is shown by its name. */
export function chipsOf({ cursor: _, ...filters }: Filters, webhooks: Record<string, string>): [string, string][] {
  return (Object.keys(filterLabels) as FilterName[]).flatMap((name) => {
    const value = filters[name];
    if (value === undefined) return [];
    return [[filterLabels[name], name === 'webhook_id' ? (webhooks[value] ?? value) : value] as [string, string]];
  });
}

/** Types to choose from, and common beginnings of several: the types of the webhook, or without one those of the page. */
async function typeChoices(
  call: Call,
  webhookId: string | undefined,
  events: readonly { event_type: string | null }[],
) {
  const listed = webhookId === undefined ? null : await partOf(call('listEventTypes', { id: webhookId }));
  const types = new Set((listed?.items ?? events).flatMap(({ event_type }) => event_type ?? []));
  const starts = [...types].map((type) => `${/^.*[^\w]/s.exec(type)?.[0] ?? ''}*`).filter((start) => start !== '*');
  return [...new Set([...types, ...starts.filter((start, at) => starts.indexOf(start) !== at)])].sort();
}

/** Number of matching events; null if it is not known now. */
async function countOf(call: Call, { cursor: _, ...query }: Filters) {
  const counted = await call('countEvents', { query, withinMs: FIRST_MS });
  return counted.kind === 'done' ? counted.body : null;
}

/** A common range of time: `FROM/` or `FROM/TO`. `day`: days from today; weir.js replaces the UTC day with that day of the browser. */
type Preset = { label: string; range: string; day?: number };

/** Common ranges to choose from; none once a range is chosen. */
function presetsOf({ from, to }: Filters): Preset[] {
  if (from !== undefined || to !== undefined) return [];
  const nowMs = Date.now();
  const hourAgo = new Date(nowMs - HOUR_MS).toISOString();
  const [today, yesterday] = [0, 24 * HOUR_MS].map(
    (ms) => `${new Date(nowMs - ms).toISOString().slice(0, 10)}T00:00:00Z`,
  );
  return [
    { label: 'Last hour', range: `${hourAgo}/` },
    { label: 'Today (UTC)', range: `${today}/`, day: 0 },
    { label: 'Yesterday (UTC)', range: `${yesterday}/${today}`, day: -1 },
  ];
}

function curlOf(
  webhook: SignedTarget & { url: string; dedupe_header: string | null },
  { headers, content_type }: { headers: Record<string, string>; content_type: string | null },
  body: Buffer,
): string | null {
  const definition = commandDefinition(webhook);
  if (body.length > CURL_BYTES_MAX || !isUtf8(body)) return null;
  return signedCurl({
    url: webhook.url,
    body,
    contentType: content_type ?? 'application/octet-stream',
    definition,
    headers: Object.fromEntries(Object.entries(headers).filter(([name]) => isTestHeader(name))),
    idHeader: webhook.dedupe_header,
  });
}
