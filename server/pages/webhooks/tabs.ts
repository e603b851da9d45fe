/** The page of one webhook: a head and four tabs, each with a URL of its own that loads only what it shows. */
import { DAY_MS, MINUTE_MS } from '../../base/time/durations.ts';
import type { BodyOf } from '../../manage/api/operations.ts';
import { type HistoryCounts, QUARTER_SECONDS, quarterOf, statusOfRefusal } from '../../model/history.ts';
import { rejectionReasons } from '../../model/signatures/diagnosis/reasons.ts';
import { eventTypeFromOf } from '../../model/signatures/event-type.ts';
import { DEFAULT_SCHEME, presetNamed } from '../../model/signatures/presets.ts';
import { answersOf } from '../../model/webhook-answers.ts';
import { agentActivity, eventDeliveries, webhookActivity, webhookHistory, webhookUsage } from '../activity.ts';
import { readChanges, readOutagesSince, totalCounts, trafficOf } from '../charts/traffic.ts';
import { agentLamp, flowOf, noAgentLamp, readIssues, receivingLamps } from '../flow/flow.ts';
import { filtersOf, formErrors } from '../forms/form.ts';
import { namesOf } from '../names.ts';
import { action, type Call, itemsOf, type Page, type PageReply, type PageRequest, partOf, view } from '../page.ts';
import { tryItOf, webhookSamples } from '../samples/samples.ts';
import { shortId, span } from '../show.ts';
import { senderOf } from './senders.ts';

export type Webhook = BodyOf<'showWebhook'>;
type WebhookTab = keyof typeof tabs;

type Feedback = { address?: string; status?: number; once?: boolean };

const ROWS_SHOWN = '20';
const FLOW_AGENTS = 10;
/** Subscribed agents by name on the tab Settings. */
const AGENTS_SHOWN = 100;

/** What each tab shows besides the webhook itself. */
const tabs = {
  requests: async (call: Call, webhook: Webhook, query: URLSearchParams) => {
    const { id } = webhook;
    const filters = filtersOf(query, ['status', 'from', 'to', 'cursor']);
    const now = Date.now();
    const agentIds = webhook.agent_ids.slice(0, FLOW_AGENTS);
    const [listed, newest, history, outages, changes, counted, issues, activity, names] = await Promise.all([
      call('listRequests', { id, query: { ...filters, limit: ROWS_SHOWN } }),
      // The accepted requests of the first page are among the newest events, which have their types.
      call('listEvents', { query: { webhook_id: id, limit: ROWS_SHOWN } }),
      partOf(call('showHistory', { query: { webhook_id: id, step: '3600' } })),
      readOutagesSince(call, now - DAY_MS),
      readChanges(call, now - DAY_MS, id),
      webhookHistory(call, [id]),
      readIssues(call, [id, webhook.cell, ...agentIds]),
      agentActivity(call, agentIds),
      namesOf(call, 'agents', agentIds),
    ]);
    const { items: events, cells_away } = itemsOf(newest);
    const requests = itemsOf(listed);
    // If the events cannot be read now, the page does not say that the webhook waits for its first one.
    const isHidden = cells_away?.some(({ number }) => number === webhook.cell) ?? false;
    const stored = requests.items.filter(({ reason }) => reason === null).map((one) => one.id);
    const deliveries = await eventDeliveries(call, [...new Set([...stored, ...events.map((event) => event.id)])]);
    const points = history?.points ?? [];
    const statuses = statusesOf(totalCounts(points), requests.items);
    const isUsed = events.length > 0 || statuses.length > 0;
    const lamps = [
      ...receivingLamps([{ ...webhook, counted: counted[id] }], issues ?? [], now),
      ...agentIds.map((agentId) => {
        const agent = { id: agentId, name: names[agentId] ?? shortId(agentId) };
        return agentLamp(agent, activity[agentId], issues ?? [], now);
      }),
      ...(agentIds.length === 0 ? [noAgentLamp(id)] : []),
    ];
    return {
      now,
      filters,
      requests,
      errors: listed.kind === 'done' ? {} : formErrors(listed).errors,
      statuses,
      types: Object.fromEntries(events.map((event) => [event.id, event.event_type])),
      cellsAway: cells_away,
      isHidden,
      isUsed,
      deliveries,
      flow: flowOf(lamps, issues !== null),
      traffic:
        (isUsed || isHidden) && points.length > 0 ? trafficOf(points, 'the last 24 hours', outages, id, changes) : null,
    };
  },
  rejections: async (call: Call, { id }: Webhook) => {
    const grouped = await call('listRejectionGroups', { query: { webhook_id: id } });
    return { samples: grouped.kind === 'done' ? grouped.body : null, groups: itemsOf(grouped).items, now: Date.now() };
  },
  settings: async (call: Call, webhook: Webhook) => {
    const { id, name } = webhook;
    const [agents, activity, usage, cells] = await Promise.all([
      namesOf(call, 'agents', webhook.agent_ids.slice(0, AGENTS_SHOWN)),
      webhookActivity(call, [id]),
      webhookUsage(call, [id]),
      call('listCells'),
    ]);
    const definition = webhook.scheme_definition ?? presetNamed(webhook.signature_scheme)?.definition;
    const idSource = webhook.dedupe_header ?? definition?.id;
    return {
      agents,
      agentsShown: AGENTS_SHOWN,
      cells: itemsOf(cells).items,
      typeFrom: eventTypeFromOf(webhook.event_type_from, webhook.signature_scheme),
      idSource: idSource?.replace(/^header:/, ''),
      ...answersOf(webhook),
      disabling: disablingOf(name, activity[id]?.last_event_at ?? null),
      stored: usage[id] ?? null,
      removedBefore: activity[id]?.events_removed_before ?? null,
    };
  },
  secret: async (call: Call, { id }: Webhook) => {
    const now = Date.now();
    // Quarters of an hour: with tens of thousands of active webhooks, minutes do not count accepted requests.
    const fromMs = quarterOf(now) - QUARTER_SECONDS * 1_000;
    const from = new Date(fromMs).toISOString();
    const [listed, counted] = await Promise.all([
      call('listSecrets', { id }),
      partOf(call('showHistory', { query: { webhook_id: id, from, step: String(QUARTER_SECONDS) } })),
    ]);
    const secrets = itemsOf(listed).items;
    const old = secrets.find(({ slot }) => slot === 'previous');
    return {
      secrets,
      meter:
        old === undefined || counted === null
          ? null
          : meterOf(
              totalCounts(counted.points),
              now - fromMs,
              secrets.find(({ slot }) => slot === 'current')?.uses ?? 0,
            ),
    };
  },
};

/** Statuses of the responses of the last day with their counts, as filters of the list. */
function statusesOf(sum: HistoryCounts, listed: readonly { status: number; reason: string | null }[]) {
  // A webhook may have statuses of its own for stored requests and refused signatures.
  const as = (usual: number, reason: (one: string | null) => boolean) =>
    listed.find((one) => reason(one.reason))?.status ?? usual;
  const rejected = as(403, (reason) => reason !== null && Object.hasOwn(rejectionReasons, reason));
  const all: [status: number, title: string, name: keyof HistoryCounts][] = [
    [as(202, (reason) => reason === null), 'accepted', 'accepted'],
    [as(200, (reason) => reason === 'duplicate'), 'duplicate', 'duplicates'],
    [rejected, 'rejected', 'rejected'],
    [429, 'rate limited', 'limited'],
    [statusOfRefusal.disabled, 'disabled', 'disabled'],
    [statusOfRefusal.length_required, 'without length', 'length_required'],
    [statusOfRefusal.too_large, 'too large', 'too_large'],
    [statusOfRefusal.unavailable, 'not stored', 'unavailable'],
  ];
  return all.map(([status, title, name]) => ({ status, title, count: sum[name] })).filter(({ count }) => count > 0);
}

/**
 * Requests of the last minutes by the secret that verified them.
 * @param uses requests that the current secret has verified: an upper bound, since accepted requests of before the rotation are counted too
 */
function meterOf({ accepted, duplicates, by_previous: old }: HistoryCounts, spanMs: number, uses: number) {
  return { minutes: Math.ceil(spanMs / MINUTE_MS), old, now: Math.max(0, Math.min(uses, accepted + duplicates - old)) };
}

/** The page of the webhook in the path, with this tab. */
export function webhookTab(tab: WebhookTab): Page {
  return action('showWebhook', ({ body }, request) => webhookView(request, tab, body));
}

/** The page of a webhook with this tab. @param more members that only this response shows, such as a new secret */
export async function webhookView(
  { call, query }: PageRequest,
  tab: WebhookTab,
  webhook: Webhook,
  more: object = {},
  feedback: Feedback = {},
): Promise<PageReply> {
  const sender = senderOf(webhook.signature_scheme);
  const setUp = webhook.signature_scheme === DEFAULT_SCHEME ? null : presetNamed(webhook.signature_scheme);
  const shown = {
    webhook,
    tab,
    tryItOf,
    webhookSamples,
    setUp,
    sender,
    retries: sender.retries,
    errors: {},
    ...(await tabs[tab](call, webhook, query)),
    ...more,
  };
  return view('webhooks/show', webhook.name, shown, feedback);
}

/** What disabling the webhook breaks. */
function disablingOf(name: string, lastEventAt: string | null): string {
  const last =
    lastEventAt === null ? 'It has no events yet.' : `Its last event arrived ${span(lastEventAt, Date.now())} ago.`;
  return `Requests to ${name} then get a 410 response and are not stored: senders may give up. ${last}`;
}
