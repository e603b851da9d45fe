/** /webhooks: the list, one webhook, and all changes to a webhook. */

import { DAY_MS } from '../../base/time/durations.ts';
import { whyUnreachable } from '../../model/address.ts';
import { eventTypeFromOf } from '../../model/signatures/event-type.ts';
import { DEFAULT_SCHEME, presets } from '../../model/signatures/presets.ts';
import { webhookFields, webhookForm } from '../../model/webhooks.ts';
import { webhookActivity, webhookHistory, webhookUsage } from '../activity.ts';
import { stripOf } from '../charts/strip.ts';
import { answerWords, errorShare, readOutagesSince } from '../charts/traffic.ts';
import { inputOf, shownParts } from '../forms/fields.ts';
import { basis, field, filtersOf, formErrors, list, noErrors, number, withVersion } from '../forms/form.ts';
import { choicesOf, namesOf, withIds } from '../names.ts';
import {
  action,
  type FormFeedback,
  formView,
  type Invalid,
  listOf,
  type Page,
  type PageReply,
  type PageRequest,
  redirect,
  view,
} from '../page.ts';
import { address, NAMES_SHOWN } from '../show.ts';
import { formOf, pickerOf, schemeNamed, senderOf, showsSecret } from './senders.ts';
import { type Webhook, webhookTab, webhookView } from './tabs.ts';

const webhookList: Page = async ({ call, query }) => {
  const filters = filtersOf(query, ['q', 'enabled', 'cursor']);
  const listed = await call('listWebhooks', { query: filters });
  if (listed.kind === 'problem') return listed;
  const list = listOf(listed);
  const ids = list.page.items.map(({ id }) => id);
  const now = Date.now();
  const [agents, activity, usage, history, outages] = await Promise.all([
    namesOf(
      call,
      'agents',
      list.page.items.flatMap(({ agent_ids }) => agent_ids.slice(0, NAMES_SHOWN)),
    ),
    webhookActivity(call, ids),
    webhookUsage(call, ids),
    webhookHistory(call, ids),
    readOutagesSince(call, now - DAY_MS),
  ]);
  const stripOfWebhook = (id: string) =>
    stripOf({
      quarters: history[id]?.quarters,
      words: answerWords,
      trouble: 'refusals',
      hrefOf: (from, to, { rejected, refused }) => {
        // Requests that were refused for other reasons are counted, but not stored.
        if (rejected === 0 && refused > 0) return address(`/webhooks/${id}`, { from, to });
        return address(rejected > 0 ? '/rejections' : '/events', { webhook_id: id, from, to });
      },
      outages,
      nowMs: now,
    });
  const strips = Object.fromEntries(ids.map((id) => [id, stripOfWebhook(id)]));
  const shown = { filters, ...list, agents, activity, usage, history, strips, errorShare, now };
  return view('webhooks/list', 'Webhooks', shown);
};

/** Without a sender in the query: the picker; `q` searches it. */
const newWebhook: Page = async (request) => {
  const { query } = request;
  const scheme = schemeNamed(query.get('scheme') ?? '');
  if (scheme === null)
    return view('webhooks/new', 'New webhook', pickerOf(query.get('q') ?? query.get('scheme') ?? ''));
  const { title, isGeneral } = senderOf(scheme);
  return editView(request, 'New webhook', { signature_scheme: scheme, name: isGeneral ? '' : title }, noErrors);
};

const createWebhook: Page = async (request) => {
  const { call, form } = request;
  const choice = form.get('secret_choice');
  const given = form.get('secret') ?? '';
  // Until the sender shows its secret, Weir generates one that is never shown.
  const isLater = choice === 'given' && given === '' && showsSecret(schemeOf(form));
  const secret = {
    // A sender with a public key has no secret.
    generate_secret: (choice === 'generate' || isLater) && field(form, 'public_key') === '',
    ...(choice === 'given' && !isLater ? { secret: given } : {}),
  };
  // One click: the checkbox carries the suggestion. A number that was typed counts.
  const suggested = field(form, 'rate_limit_max') === '' ? number(form, 'suggested_limit') : null;
  const limit = suggested === null ? {} : { rate_limit_max: suggested };
  const created = await withIds(call, 'agents', 'agent_ids', webhookOf(form), (found) =>
    call('createWebhook', { input: { ...found, ...secret, ...limit } }),
  );
  if (created.kind !== 'done') return editView(request, 'New webhook', valuesOf(form), formErrors(created));
  // Shown only in this response: a redirect would have to store the secret.
  const unreachable = whyUnreachable(created.body.url);
  const more = { secret: isLater ? null : (created.body.secret ?? null), made: true, isLater, unreachable };
  return webhookView(request, 'requests', created.body, more, {
    address: `/webhooks/${created.body.id}`,
    once: more.secret !== null,
  });
};

const editWebhook = action('showWebhook', ({ body, text }, request) =>
  editView(request, `Edit ${body.name}`, valuesOfWebhook(body, text), noErrors),
);

const updateWebhook: Page = async (request) => {
  const { call, id, form } = request;
  const updated = await withIds(call, 'agents', 'agent_ids', webhookOf(form), (found) =>
    call('updateWebhook', { id, input: { ...found, unverified: form.has('unverified') }, ...basis(form) }),
  );
  if (updated.kind === 'done') return redirect(`/webhooks/${id}/settings`, 'saved');
  const { was, refused } = await withVersion(form, updated, () => call('showWebhook', { id }));
  return editView(request, 'Edit the webhook', { ...valuesOf(form), id, was }, formErrors(refused));
};

const switchWebhook = action(
  'updateWebhook',
  ({ body }, { id }) => redirect(`/webhooks/${id}`, body.enabled ? 'enabled' : 'disabled'),
  ({ form }) => ({ input: { enabled: form.get('enabled') === 'true' } }),
);

const rotateWebhook = action('showWebhook', async ({ body: webhook }, request) => {
  const { call, id, form } = request;
  const refused = (errors: Invalid['errors']) => webhookView(request, 'secret', webhook, { errors }, { status: 422 });
  const given = field(form, 'secret');
  const { showsSecret, title } = senderOf(webhook.signature_scheme);
  if (given === '' && showsSecret) return refused({ secret: `Paste the secret that ${title} shows.` });
  const input = { overlap_seconds: number(form, 'overlap_seconds') ?? 0, ...(given === '' ? {} : { secret: given }) };
  const rotated = await call('rotateSecret', { id, input });
  if (rotated.kind === 'problem') return rotated;
  if (rotated.kind === 'invalid') return refused(rotated.errors);
  const secret = rotated.body.secret ?? null;
  // From the first page of a new webhook.
  if (form.has('first') && secret === null) return redirect(`/webhooks/${id}`, 'secret-active');
  const changed = { ...webhook, has_secret: true };
  return webhookView(request, 'secret', changed, { secret, rotated: true }, { once: secret !== null });
});

const endPreviousSecret = action('endPreviousSecret', (_, { id }) =>
  redirect(`/webhooks/${id}/secret`, 'previous-ended'),
);

const moveWebhook = action(
  'moveWebhook',
  (_, { id }) => redirect(`/webhooks/${id}/settings`, 'webhook-moved'),
  ({ form }) => ({ input: { cell: number(form, 'cell') ?? 0 } }),
);

const deleteWebhook = action('showWebhook', async ({ body: webhook }, request) => {
  const deleted = await request.call('deleteWebhook', { id: request.id, name: webhook.name });
  if (deleted.kind === 'done') return redirect('/webhooks', 'deleted');
  if (deleted.kind === 'problem') return deleted;
  return webhookView(request, 'settings', webhook, { errors: deleted.errors }, { status: 422 });
});

export const webhookPages = {
  webhookList,
  newWebhook,
  createWebhook,
  showWebhook: webhookTab('requests'),
  webhookRejections: webhookTab('rejections'),
  webhookSettings: webhookTab('settings'),
  webhookSecret: webhookTab('secret'),
  editWebhook,
  updateWebhook,
  switchWebhook,
  rotateWebhook,
  endPreviousSecret,
  moveWebhook,
  deleteWebhook,
};

type WebhookValues = { agent_ids?: string[]; [member: string]: unknown };

async function editView(
  { call }: PageRequest,
  title: string,
  values: WebhookValues,
  feedback: FormFeedback,
): Promise<PageReply> {
  const { errors } = feedback;
  // List all subscribed agents: a missing checkbox would end the subscription.
  const agents = await choicesOf(call, 'agents', values.agent_ids, { active: true });
  const isNew = values.id === undefined;
  const scheme = String(values.signature_scheme ?? DEFAULT_SCHEME);
  const defaultType = eventTypeFromOf(null, scheme);
  const partsOf = (defaults: Readonly<Record<string, string>>) =>
    shownParts(webhookFields, isNew ? formOf(String(values.signature_scheme), errors) : webhookForm, {
      values,
      errors,
      facts: {
        ...defaults,
        'default type':
          defaultType === null ? 'the default of the scheme' : `${defaultType}, the default of the scheme`,
        'example type': defaultType ?? 'header:x-github-event+json:/action',
        'stored token': values.has_verify_token ? ' Empty: the stored token stays.' : '',
      },
    });
  const sender = isNew ? senderOf(scheme) : null;
  return formView('webhooks/form', title, { title, values, agents, schemes: presets, sender, partsOf }, feedback);
}

/** The fields that the create and edit forms share. */
function webhookOf(form: URLSearchParams) {
  const given = { ...inputOf(webhookFields, webhookForm, form), agent_ids: list(form, 'agent_ids') };
  return { ...given, signature_scheme: schemeOf(form) };
}

/** The scheme, also if it was typed as the title of a sender or in another case. */
function schemeOf(form: URLSearchParams): string {
  const typed = field(form, 'signature_scheme');
  return schemeNamed(typed) ?? (typed || DEFAULT_SCHEME);
}

function valuesOfWebhook(webhook: Webhook, was: string): WebhookValues {
  const { scheme_definition: definition, answer } = webhook;
  const jsonOf = (value: object | null) => (value === null ? '' : JSON.stringify(value));
  return { ...webhook, was, scheme_definition: jsonOf(definition), answer: jsonOf(answer) };
}

/** The typed values, to show again; never a secret. */
function valuesOf(form: URLSearchParams): WebhookValues {
  const { secret: _, verify_token: _token, ...values } = Object.fromEntries(form);
  return { ...values, agent_ids: list(form, 'agent_ids') };
}
