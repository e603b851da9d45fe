/** /webhooks/{id}/test: the form that asks which event a test request carries, and sends it. */
import { describeEvent } from '../../manage/api/events/filter.ts';
import { isTestHeader } from '../../manage/api/webhooks/test-request.ts';
import { eventTypeFromOf, typedRequest } from '../../model/signatures/event-type.ts';
import { exampleRequest } from '../../model/signatures/examples.ts';
import { presetNamed } from '../../model/signatures/presets.ts';
import type { Database } from '../../store/connect/pool.ts';
import { isTimedId } from '../../store/ids.ts';
import { findEvent } from '../../store/queries/events/events.ts';
import { isEditable } from '../events/send-again.ts';
import { field, fieldError, formErrors, noErrors } from '../forms/form.ts';
import { action, type FormFeedback, formView, type PageReply, type PageRequest, partOf } from '../page.ts';
import { plural } from '../show.ts';
import { type Webhook, webhookView } from './tabs.ts';

/** Maximum event types for which the form offers the newest event. */
const TYPES_SHOWN_MAX = 20;

const SMALL = 'small';
const EXAMPLE = 'example';

interface TestRequest {
  headers: Record<string, string>;
  contentType: string;
  body: string;
}

/** @param database with the bodies of stored events, one of which can be sent */
export function webhookTestPages(database: Database) {
  /** The request that was chosen; null: its event does not exist any more, or it is not text. */
  async function requestOf(webhook: Webhook, chosen: string): Promise<TestRequest | null> {
    const contentType = 'application/json';
    if (chosen === EXAMPLE) {
      const example = exampleRequest(webhook.signature_scheme);
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

  const newTest = action('showWebhook', ({ body }, request) =>
    testView(request, body, { event: SMALL, type: '' }, noErrors),
  );

  const testWebhook = action('showWebhook', async ({ body: webhook }, request) => {
    const { call, id, form } = request;
    const values = { event: field(form, 'event') || SMALL, type: field(form, 'type').trim() };
    const refuse = (name: string, message: string) => testView(request, webhook, values, fieldError(name, message));
    const chosen = await requestOf(webhook, values.event);
    if (chosen === null) return refuse('event', 'This event cannot be sent from here. Choose another one.');
    const source = typeSourceOf(webhook);
    const typed = values.type === '' || source === null ? chosen : typedRequest(source, values.type, chosen);
    if (typed === null) return refuse('type', `The type is read from ${source}, and the body is not a JSON object.`);
    const input = { body: typed.body, content_type: chosen.contentType, headers: typed.headers };
    const sent = await call('testWebhook', { id, input });
    if (sent.kind === 'problem') return sent;
    if (sent.kind === 'invalid') return testView(request, webhook, values, formErrors(sent));
    return webhookView(request, 'requests', webhook, { test: sent.body }, { address: `/webhooks/${id}` });
  });

  return { newTest, testWebhook };
}

const typeSourceOf = ({ event_type_from, signature_scheme }: Webhook) =>
  eventTypeFromOf(event_type_from, signature_scheme);

async function testView(
  { call }: PageRequest,
  webhook: Webhook,
  values: { event: string; type: string },
  feedback: FormFeedback,
): Promise<PageReply> {
  const items = (await partOf(call('listEventTypes', { id: webhook.id })))?.items ?? [];
  const sender = presetNamed(webhook.signature_scheme)?.title;
  const events = [
    [SMALL, 'A small JSON document'],
    ...(exampleRequest(webhook.signature_scheme) === null ? [] : [[EXAMPLE, `The example of ${sender}`]]),
    ...items
      .slice(0, TYPES_SHOWN_MAX)
      .map(({ event_type, newest_id, events: count }) => [
        newest_id,
        `${event_type === null ? 'The newest event without a type' : `The newest ${event_type}`}, of ${plural(count, 'event')} in 7 days`,
      ]),
  ];
  const source = typeSourceOf(webhook);
  const names = items.flatMap(({ event_type }) => event_type ?? []);
  const data = { webhook, values, events, source, names };
  return formView('webhooks/test', `Send a test to ${webhook.name}`, data, feedback);
}
