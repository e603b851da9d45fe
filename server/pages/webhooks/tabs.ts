/** The page of one webhook: a head and four tabs, each with a URL of its own that loads only what it shows. */
import { DAY_MS } from '../../base/time/durations.ts';
import type { Success } from '../../manage/api/operation.ts';
import type { Operations } from '../../manage/api/operations.ts';
import { eventTypeFromOf } from '../../model/signatures/event-type.ts';
import { DEFAULT_SCHEME, presetNamed } from '../../model/signatures/presets.ts';
import { retriesText } from '../../model/signatures/retries.ts';
import { eventDeliveries, webhookActivity, webhookHistory, webhookUsage } from '../activity.ts';
import type { Call } from '../call.ts';
import { isFelt, readOutagesSince } from '../charts/outage-list.ts';
import { refusalsOf } from '../charts/refusals.ts';
import { trafficOf } from '../charts/traffic.ts';
import { namesOf } from '../names.ts';
import { asProblem, itemsOf, type Page, type PageReply, type PageRequest, partOf, view } from '../page.ts';
import { samplesOf, tryItOf } from '../samples/webhook.ts';
import { count, span } from '../show.ts';
import { senderOf } from './senders.ts';

export type Webhook = Success<Operations['showWebhook']['answers']>['body'];
type WebhookTab = keyof typeof tabs;
type Counted = Awaited<ReturnType<typeof webhookHistory>>[string];
type Feedback = { address?: string; status?: number; once?: boolean };

const ROWS_SHOWN = '20';
/** Subscribed agents by name on the tab Settings. */
const AGENTS_SHOWN = 100;
/** A webhook is new for so long after it was created, or until its first event. */
const NEW_MS = 3_600_000;

/** What each tab shows besides the webhook itself. */
const tabs = {
  events: async (call: Call, webhook: Webhook) => {
    const listed = await call('listEvents', { query: { webhook_id: webhook.id, limit: ROWS_SHOWN } });
    const { items: events, cells_away } = itemsOf(listed);
    // A webhook whose events cannot be read now does not wait for its first one.
    const isHidden = cells_away?.some(({ number }) => number === webhook.cell) ?? false;
    const deliveries = await eventDeliveries(
      call,
      events.map(({ id }) => id),
    );
    const history = await partOf(call('showHistory', { query: { webhook_id: webhook.id, step: '3600' } }));
    const points = history?.points ?? [];
    const refusals = refusalsOf(points, retriesText(webhook.signature_scheme));
    const outageList = await readOutagesSince(call, Date.now() - DAY_MS);
    const isUsed = events.length > 0 || refusals.length > 0 || isHidden;
    return {
      events,
      cellsAway: cells_away,
      isHidden,
      deliveries,
      refusals,
      outageList: outageList.filter(isFelt),
      traffic: isUsed && points.length > 0 ? trafficOf(points, 'the last 24 hours', outageList, webhook.id) : null,
      waiting: isHidden ? null : await waitingOf(call, webhook, events, deliveries),
    };
  },
  rejections: async (call: Call, { id }: Webhook) => {
    const grouped = await call('listRejectionGroups', { query: { webhook_id: id } });
    return {
      rejections: itemsOf(await call('listRejections', { query: { webhook_id: id, limit: ROWS_SHOWN } })).items,
      samples: grouped.kind === 'done' ? grouped.body : null,
      groups: itemsOf(grouped).items,
      now: Date.now(),
    };
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
      answer: webhook.answer ?? definition?.answer ?? null,
      refusedStatus: webhook.refused_status ?? definition?.refused_status ?? 403,
      disabling: disablingOf(name, activity[id]?.last_event_at ?? null),
      stored: usage[id] ?? null,
      removedBefore: activity[id]?.events_removed_before ?? null,
    };
  },
  secret: async (call: Call, { id }: Webhook) => ({ secrets: itemsOf(await call('listSecrets', { id })).items }),
};

/** The page of the webhook in the path, with this tab. */
export function webhookTab(tab: WebhookTab): Page {
  return async (request) => {
    const webhook = await request.call('showWebhook', { id: request.id });
    return webhook.kind === 'done' ? webhookView(request, tab, webhook.body) : asProblem(webhook);
  };
}

/** @param more what only this response shows, such as a new secret. */
export async function webhookView(
  { call }: PageRequest,
  tab: WebhookTab,
  webhook: Webhook,
  more: object = {},
  feedback: Feedback = {},
): Promise<PageReply> {
  const sender = senderOf(webhook.signature_scheme);
  const setUp = webhook.signature_scheme === DEFAULT_SCHEME ? null : presetNamed(webhook.signature_scheme);
  const counted: Counted | undefined = (await webhookHistory(call, [webhook.id]))[webhook.id];
  const shown = {
    webhook,
    tab,
    tryItOf,
    samplesOf,
    setUp,
    sender,
    retries: sender.retries,
    errors: {},
    counts: counted && { events: count(counted.accepted), rejections: count(counted.rejected) },
    ...(await tabs[tab](call, webhook)),
    ...more,
  };
  return view('webhooks/show', webhook.name, shown, feedback);
}

/** How far the first request of a new webhook has come; null: the webhook is in use. `rejection`: the newest, while there is no event. */
async function waitingOf(
  call: Call,
  webhook: Webhook,
  events: readonly { id: string; received_at: string }[],
  deliveries: Awaited<ReturnType<typeof eventDeliveries>>,
) {
  if (events.length > 0 && Date.now() - Date.parse(webhook.created_at) > NEW_MS) return null;
  const [rejection = null] = itemsOf(
    await call('listRejections', { query: { webhook_id: webhook.id, limit: '1' } }),
  ).items;
  const { title, isGeneral } = senderOf(webhook.signature_scheme);
  const isStored = events.length > 0;
  const fetched = Object.values(deliveries).some(({ leased, done, dead }) => leased + done + dead > 0);
  return {
    arrived: isStored || rejection !== null,
    stored: isStored,
    fetched,
    event: events.at(-1) ?? null,
    // The tab Rejections has the number of later ones.
    rejection: isStored ? null : rejection,
    sender: isGeneral ? 'the sender' : title,
    titleOf: (scheme: string) => presetNamed(scheme)?.title ?? scheme,
  };
}

/** What disabling the webhook breaks. */
function disablingOf(name: string, lastEventAt: string | null): string {
  const last =
    lastEventAt === null ? 'It has no events yet.' : `Its last event arrived ${span(lastEventAt, Date.now())} ago.`;
  return `Requests to ${name} then get a 410 response and are not stored: senders may give up. ${last}`;
}
