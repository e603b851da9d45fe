/** /webhooks/{id}/test: the form that asks which event a test request carries, says which agents get it, and sends it. */
import { describeEvent } from '../../manage/api/events/filter.ts';
import { isTestHeader } from '../../manage/api/webhooks/test-request.ts';
import { eventTypeFromOf, typedRequest } from '../../model/signatures/event-type.ts';
import { exampleOf } from '../../model/signatures/examples.ts';
import { presetNamed } from '../../model/signatures/presets.ts';
import type { Database } from '../../store/connect/pool.ts';
import { isTimedId } from '../../store/ids.ts';
import { findEvent } from '../../store/queries/events/events.ts';
import type { Call } from '../call.ts';
import { isEditable } from '../events/send-again.ts';
import { type FormFeedback, fieldError, formErrors, noErrors } from '../forms/errors.ts';
import { field } from '../forms/form.ts';
import { namesOf } from '../names.ts';
import { asProblem, itemsOf, type Page, type PageReply, type PageRequest, partOf, view } from '../page.ts';
import { plural, sentence } from '../show.ts';
import { type Webhook, webhookView } from './tabs.ts';

/** Maximum agents that the form names. */
const AGENTS_SHOWN_MAX = 10;
/** Maximum event types for which the form offers the newest event. */
const TYPES_SHOWN_MAX = 20;

const SMALL = 'small';
const EXAMPLE = 'example';

interface TestRequest {
  headers: Record<string, string>;
  contentType: string;
  body: string;
}

export function webhookTestPages(database: Database) {
  /** The request that was chosen; null: its event does not exist any more, or it is not text. */
  async function requestOf(webhook: Webhook, chosen: string): Promise<TestRequest | null> {
    const contentType = 'application/json';
    if (chosen === EXAMPLE) {
      const example = exampleOf(webhook.signature_scheme);
      return example && { headers: { ...example.headers }, contentType, body: JSON.stringify(example.body) };
    }
    if (!isTimedId(chosen)) {
      const body = JSON.stringify({ type: 'weir.test', sent_at: new Date().toISOString() });
      return { headers: {}, contentType, body };
    }
    const stored = await findEvent(database, null, chosen.toLowerCase());
    if (stored === undefined || stored.webhook_id !== webhook.id || !isEditable(stored.body)) return null;
    const { headers, content_type } = describeEvent(stored);
    return {
      headers: Object.fromEntries(Object.entries(headers).filter(([name]) => isTestHeader(name))),
      contentType: content_type ?? 'application/octet-stream',
      body: stored.body.toString('utf8'),
    };
  }

  const newTest: Page = async (request) => {
    const webhook = await request.call('showWebhook', { id: request.id });
    if (webhook.kind !== 'done') return asProblem(webhook);
    return formView(request, webhook.body, { event: SMALL, type: '' }, noErrors);
  };

  const testWebhook: Page = async (request) => {
    const { call, id, form } = request;
    const webhook = await call('showWebhook', { id });
    if (webhook.kind !== 'done') return asProblem(webhook);
    const values = { event: field(form, 'event') || SMALL, type: field(form, 'type').trim() };
    const refuse = (name: string, message: string) =>
      formView(request, webhook.body, values, fieldError(name, message));
    const chosen = await requestOf(webhook.body, values.event);
    if (chosen === null) return refuse('event', 'This event cannot be sent from here. Choose another one.');
    const source = typeSourceOf(webhook.body);
    const typed = values.type === '' || source === null ? chosen : typedRequest(source, values.type, chosen);
    if (typed === null) return refuse('type', `The type is read from ${source}, and the body is not a JSON object.`);
    const input = { body: typed.body, content_type: chosen.contentType, headers: typed.headers };
    const sent = await call('testWebhook', { id, input });
    if (sent.kind === 'problem') return sent;
    if (sent.kind === 'invalid') return formView(request, webhook.body, values, formErrors(sent));
    return webhookView(request, 'requests', webhook.body, { test: sent.body }, { address: `/webhooks/${id}` });
  };

  return { newTest, testWebhook };
}

const typeSourceOf = ({ event_type_from, signature_scheme }: Webhook) =>
  eventTypeFromOf(event_type_from, signature_scheme);

async function formView(
  { call }: PageRequest,
  webhook: Webhook,
  values: { event: string; type: string },
  { errors, ...status }: FormFeedback,
): Promise<PageReply> {
  const [types, agents] = await Promise.all([
    partOf(call('listEventTypes', { id: webhook.id })),
    agentsOf(call, webhook),
  ]);
  const items = types?.items ?? [];
  const sender = presetNamed(webhook.signature_scheme)?.title;
  const events = [
    [SMALL, 'A small JSON document'],
    ...(exampleOf(webhook.signature_scheme) === null ? [] : [[EXAMPLE, `The example of ${sender}`]]),
    ...items
      .slice(0, TYPES_SHOWN_MAX)
      .map(({ event_type, newest_id, events: count }) => [
        newest_id,
        `${event_type === null ? 'The newest event without a type' : `The newest ${event_type}`}, of ${plural(count, 'event')} in 7 days`,
      ]),
  ];
  const source = typeSourceOf(webhook);
  const names = items.flatMap(({ event_type }) => event_type ?? []);
  return view(
    'webhooks/test',
    sentence(`send a test to ${webhook.name}`),
    { webhook, values, errors, events, source, names, ...agents },
    status,
  );
}

/** The agents that get the event, and how many more. `filter`: the event is delivered only if it is true. */
async function agentsOf(call: Call, { id, agent_ids }: Webhook) {
  const ids = agent_ids.slice(0, AGENTS_SHOWN_MAX);
  const names = await namesOf(call, 'agents', ids);
  const agents = await Promise.all(
    ids.map(async (agentId) => {
      const subscription = await call('listAgentWebhooks', { id: agentId, query: { webhook_id: id } });
      return { id: agentId, name: names[agentId], filter: itemsOf(subscription).items[0]?.filter ?? null };
    }),
  );
  return { agents, moreAgents: agent_ids.length - agents.length };
}
