/** /webhooks: the list, one webhook, and all changes to a webhook. */

import type { Success } from '../api/operation.ts';
import type { Operations } from '../api/operations.ts';
import { eventTypeFromOf } from '../signatures/event-type.ts';
import { DEFAULT_SCHEME, presetNamed, presets } from '../signatures/presets.ts';
import { eventDeliveries, webhookActivity } from './activity.ts';
import { tagOf } from './call.ts';
import { signedCurl } from './curl.ts';
import { filtersOf } from './filters.ts';
import { basis, field, list, nextTag, number, optional } from './form.ts';
import { type FormFeedback, formErrors, noErrors } from './form-errors.ts';
import { choicesOf, namesOf, withIds } from './names.ts';
import { asProblem, listOf, type Page, type PageReply, type PageRequest, redirect, view } from './page.ts';
import { span } from './show.ts';

const EVENTS_SHOWN = 10;
const EXAMPLE_BODY = Buffer.from('{"hello":"world"}');

const webhookList: Page = async ({ call, query }) => {
  const filters = filtersOf(query, ['q', 'enabled', 'cursor']);
  const [listed, agents] = await Promise.all([call('listWebhooks', { query: filters }), namesOf(call, 'listAgents')]);
  if (listed.kind === 'problem') return listed;
  const list = listOf(listed);
  const activity = await webhookActivity(
    call,
    list.page.items.map(({ id }) => id),
  );
  return view('webhooks/list', 'Webhooks', { filters, ...list, agents, activity, now: Date.now() });
};

const newWebhook: Page = async (request) => formView(request, 'New webhook', {}, noErrors);

const createWebhook: Page = async (request) => {
  const { call, form } = request;
  const choice = form.get('secret_choice');
  const secret = {
    // A sender with a public key has no secret.
    generate_secret: choice === 'generate' && field(form, 'public_key') === '',
    ...(choice === 'given' ? { secret: form.get('secret') ?? '' } : {}),
  };
  const created = await withIds(call, 'listAgents', 'agent_ids', webhookOf(form), (found) =>
    call('createWebhook', { input: { ...found, ...secret } }),
  );
  if (created.kind !== 'done') return formView(request, 'New webhook', valuesOf(form), formErrors(created));
  // Shown only in this response: a redirect would have to store the secret.
  const more = { secret: created.body.secret ?? null, made: true };
  return webhookView(request, created.body, more, {
    address: `/webhooks/${created.body.id}`,
    once: more.secret !== null,
  });
};

const showWebhook: Page = async (request) => {
  const webhook = await request.call('showWebhook', { id: request.id });
  return webhook.kind === 'done' ? webhookView(request, webhook.body, {}) : asProblem(webhook);
};

const editWebhook: Page = async (request) => {
  const webhook = await request.call('showWebhook', { id: request.id });
  if (webhook.kind !== 'done') return asProblem(webhook);
  return formView(request, `Edit ${webhook.body.name}`, valuesOfWebhook(webhook.body, tagOf(webhook)), noErrors);
};

const updateWebhook: Page = async (request) => {
  const { call, id, form } = request;
  const updated = await withIds(call, 'listAgents', 'agent_ids', webhookOf(form), (found) =>
    call('updateWebhook', { id, input: found, ...basis(form) }),
  );
  if (updated.kind === 'done') return redirect(`/webhooks/${id}`, 'saved');
  const tag = await nextTag(form, updated, () => call('showWebhook', { id }));
  return formView(request, 'Edit the webhook', { ...valuesOf(form), id, tag }, formErrors(updated));
};

/** Disables or enables a webhook. */
const switchWebhook: Page = async ({ call, id, form }) => {
  const enabled = form.get('enabled') === 'true';
  const updated = await call('updateWebhook', { id, input: { enabled } });
  return updated.kind === 'done' ? redirect(`/webhooks/${id}`, enabled ? 'enabled' : 'disabled') : asProblem(updated);
};

const rotateWebhook: Page = async (request) => {
  const { call, id, form } = request;
  const given = field(form, 'secret');
  const input = { overlap_seconds: number(form, 'overlap_seconds') ?? 0, ...(given === '' ? {} : { secret: given }) };
  const rotated = await call('rotateSecret', { id, input });
  if (rotated.kind === 'problem') return rotated;
  const webhook = await call('showWebhook', { id });
  if (webhook.kind !== 'done') return asProblem(webhook);
  if (rotated.kind === 'invalid')
    return webhookView(request, webhook.body, { errors: rotated.errors }, { status: 422 });
  const secret = rotated.body.secret ?? null;
  return webhookView(request, webhook.body, { secret, rotated: true }, { once: secret !== null });
};

const testWebhook: Page = async (request) => {
  const { call, id } = request;
  const [sent, webhook] = await Promise.all([call('testWebhook', { id }), call('showWebhook', { id })]);
  if (sent.kind !== 'done') return asProblem(sent);
  return webhook.kind === 'done' ? webhookView(request, webhook.body, { test: sent.body }) : asProblem(webhook);
};

/** Requires the typed name, to prevent deleting the wrong webhook. */
const deleteWebhook: Page = async (request) => {
  const { call, id, form } = request;
  const webhook = await call('showWebhook', { id });
  if (webhook.kind !== 'done') return asProblem(webhook);
  if (field(form, 'name') !== webhook.body.name)
    return webhookView(
      request,
      webhook.body,
      { errors: { name: `Type ${webhook.body.name} to delete it.` } },
      { status: 422 },
    );
  const deleted = await call('deleteWebhook', { id });
  return deleted.kind === 'done' ? redirect('/webhooks', 'deleted') : asProblem(deleted);
};

export const webhookPages = {
  webhookList,
  newWebhook,
  createWebhook,
  showWebhook,
  editWebhook,
  updateWebhook,
  switchWebhook,
  rotateWebhook,
  testWebhook,
  deleteWebhook,
};

type Webhook = Success<Operations['showWebhook']['answers']>['body'];

async function webhookView(
  { call }: PageRequest,
  webhook: Webhook,
  more: object,
  feedback: { address?: string; status?: number; once?: boolean } = {},
): Promise<PageReply> {
  const [events, agents, secrets, activity] = await Promise.all([
    call('listEvents', { query: { webhook_id: webhook.id, limit: String(EVENTS_SHOWN) } }),
    namesOf(call, 'listAgents', webhook.agent_ids),
    call('listSecrets', { id: webhook.id }),
    webhookActivity(call, [webhook.id]),
  ]);
  const items = events.kind === 'done' ? events.body.items : [];
  const preset = presetNamed(webhook.signature_scheme);
  const idSource = webhook.dedupe_header ?? (webhook.scheme_definition ?? preset?.definition)?.id;
  const data = {
    webhook,
    agents,
    typeFrom: eventTypeFromOf(webhook.event_type_from, webhook.signature_scheme),
    idSource: idSource?.replace(/^header:/, ''),
    disabling: disablingOf(webhook.name, activity[webhook.id]?.last_event_at ?? null),
    removedBefore: activity[webhook.id]?.events_removed_before ?? null,
    secrets: secrets.kind === 'done' ? secrets.body.items : [],
    events: items,
    deliveries: await eventDeliveries(
      call,
      items.map(({ id }) => id),
    ),
    tryIt: tryItOf(webhook),
    setUp: webhook.signature_scheme === DEFAULT_SCHEME ? null : preset,
    errors: {},
    ...more,
  };
  return view('webhooks/show', webhook.name, data, feedback);
}

/** What disabling the webhook breaks. */
function disablingOf(name: string, lastEventAt: string | null): string {
  const last =
    lastEventAt === null ? 'It has no events yet.' : `Its last event arrived ${span(lastEventAt, Date.now())} ago.`;
  return `Requests to ${name} then get a 410 response and are not stored: senders may give up. ${last}`;
}

/** A command that sends a signed request. */
function tryItOf({ url, signature_scheme, has_secret, signature_header }: Webhook): string {
  if (signature_scheme !== DEFAULT_SCHEME) return `npx weir send ${url} --scheme ${signature_scheme}`;
  const signatureHeader = has_secret ? (signature_header ?? 'X-Hub-Signature-256') : null;
  return signedCurl({ url, body: EXAMPLE_BODY, contentType: 'application/json', signatureHeader })!;
}

type WebhookValues = { agent_ids?: string[]; [member: string]: unknown };

async function formView(
  { call }: PageRequest,
  title: string,
  values: WebhookValues,
  feedback: FormFeedback,
): Promise<PageReply> {
  const { errors, ...status } = feedback;
  // List all subscribed agents: a missing checkbox would end the subscription.
  const agents = await choicesOf(call, 'listAgents', values.agent_ids, { revoked: 'false' });
  const defaultType = eventTypeFromOf(null, String(values.signature_scheme ?? DEFAULT_SCHEME));
  return view('webhooks/form', title, { title, values, errors, agents, schemes: presets, defaultType }, status);
}

/** The fields that the create and edit forms share. */
function webhookOf(form: URLSearchParams) {
  return {
    name: field(form, 'name'),
    description: field(form, 'description'),
    signature_scheme: field(form, 'signature_scheme') || DEFAULT_SCHEME,
    scheme_definition: definitionOf(field(form, 'scheme_definition')),
    public_key: optional(form, 'public_key'),
    tolerance_seconds: number(form, 'tolerance_seconds'),
    ...(field(form, 'verify_token') === '' ? {} : { verify_token: field(form, 'verify_token') }),
    signature_header: optional(form, 'signature_header'),
    dedupe_header: optional(form, 'dedupe_header'),
    event_type_from: optional(form, 'event_type_from'),
    max_payload_bytes: number(form, 'max_payload_bytes'),
    rate_limit_max: number(form, 'rate_limit_max'),
    retention_days: number(form, 'retention_days'),
    agent_ids: list(form, 'agent_ids'),
  };
}

/** The typed definition. Text that is not JSON stays text, which the operation refuses. */
function definitionOf(text: string): unknown {
  if (text === '') return null;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function valuesOfWebhook(webhook: Webhook, tag: string): WebhookValues {
  const { scheme_definition: definition } = webhook;
  return { ...webhook, tag, scheme_definition: definition === null ? '' : JSON.stringify(definition) };
}

/** The typed values, to show again; never a secret. */
function valuesOf(form: URLSearchParams): WebhookValues {
  const { secret: _, verify_token: _token, ...values } = Object.fromEntries(form);
  return { ...values, agent_ids: list(form, 'agent_ids') };
}
