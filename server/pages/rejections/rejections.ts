/** /rejections: rejected requests in groups with the same reason, how to fix it by a button, and whether they would verify now. */

import type { BodyOf } from '../../manage/api/operations.ts';
import { reasonTitle, rejectionReasonNames } from '../../model/signatures/diagnosis/reasons.ts';
import { presetNamed } from '../../model/signatures/presets.ts';
import { retriesText } from '../../model/signatures/retries.ts';
import { field, filtersOf, formErrors, noErrors, optional } from '../forms/form.ts';
import { choicesOf, listBy } from '../names.ts';
import {
  action,
  asProblem,
  type FormFeedback,
  formView,
  itemsOf,
  listOf,
  type Page,
  type PageReply,
  type PageRequest,
  partOf,
  redirect,
  view,
} from '../page.ts';
import { sentence } from '../show.ts';
import { senderOf } from '../webhooks/senders.ts';

/** Rows below the groups of reasons. */
const ROWS_SHOWN = '10';

const rejectionList: Page = async ({ call, query }) => {
  const given = filtersOf(query, ['webhook_id', 'reason', 'from', 'to', 'cursor']);
  // The groups have no range of time, so that they are shown without one.
  const isFirst = !given.cursor && !given.from && !given.to;
  const rows = isFirst && !given.reason ? ROWS_SHOWN : undefined;
  const { filters, listed } = await listBy(call, 'listRejections', given, { limit: rows });
  if (listed.kind === 'problem') return listed;
  const grouped = await call('listRejectionGroups', { query: { webhook_id: filters.webhook_id } });
  const found = itemsOf(grouped).items;
  const list = listOf(listed);
  const shown = [...found, ...list.page.items].map(({ webhook_id }) => webhook_id);
  const webhooks = await choicesOf(call, 'webhooks', [...shown, filters.webhook_id]);
  const groups = isFirst ? found.filter(({ reason }) => filters.reason === undefined || filters.reason === reason) : [];
  const occurring = new Set<string | undefined>([
    ...[...found, ...list.page.items].map(({ reason }) => reason),
    filters.reason,
  ]);
  const data = {
    filters,
    ...list,
    webhooks,
    groups,
    samples: isFirst && grouped.kind === 'done' ? grouped.body : null,
    reasons: rejectionReasonNames.filter((name) => occurring.has(name)),
    now: Date.now(),
  };
  return view('rejections/list', 'Rejections', data);
};

const showRejection = action('showRejection', ({ body }, request) => rejectionView(request, body, noErrors));

const recheckRejection = action('recheckRejection', ({ body }, { id }) =>
  redirect(`/rejections/${id}`, body.verified ? 'verifies-now' : 'still-refused'),
);

const acceptRejection = action('acceptRejection', ({ body }) => redirect(`/events/${body.event_id}`, 'accepted'));

/** Changes the webhook as one of the fixes of the rejection says. */
const fixRejection: Page = async (request) => {
  const { call, id, form } = request;
  const kind = field(form, 'kind');
  const secret = field(form, 'secret');
  const scheme = { signature_scheme: field(form, 'scheme'), public_key: optional(form, 'public_key') };
  const input = {
    kind,
    ...(kind === 'set_scheme' ? { ...scheme, secret: secret === '' ? null : secret } : {}),
    ...(kind === 'set_secret' ? { secret } : {}),
  };
  const fixed = await call('fixRejection', { id, input });
  if (fixed.kind === 'done') return redirect(`/rejections/${id}?count=${fixed.body.verified}`, 'rejection-fixed');
  const rejection = await call('showRejection', { id });
  if (rejection.kind !== 'done') return asProblem(rejection);
  return rejectionView(request, rejection.body, formErrors(fixed), { kind, ...scheme });
};

const acceptRejections = action(
  'acceptRejections',
  ({ body: { accepted, more } }) =>
    redirect(`/rejections?count=${accepted}`, more ? 'accepted-many-in-part' : 'accepted-many'),
  ({ form }) => ({ input: { webhook_id: field(form, 'webhook_id') } }),
);

export const rejectionPages = {
  rejectionList,
  showRejection,
  recheckRejection,
  acceptRejection,
  fixRejection,
  acceptRejections,
};

type Rejection = BodyOf<'showRejection'>;

/** Reasons after which the page shows how to set up the sender. */
const secretReasons: readonly Rejection['reason'][] = [
  'header_missing',
  'digest_differs',
  'previous_secret',
  'secret_unset',
];

/** The page of a rejection. @param refused the fix that was refused, as it was given, without a secret */
async function rejectionView(
  { call }: PageRequest,
  rejection: Rejection,
  feedback: FormFeedback,
  refused: { kind: string; signature_scheme: string; public_key: string | null } | null = null,
): Promise<PageReply> {
  const groups = itemsOf(await call('listRejectionGroups', { query: { webhook_id: rejection.webhook_id } })).items;
  const similar = groups.find(({ reason, header }) => reason === rejection.reason && header === rejection.header);
  const acceptable = groups.reduce((sum, group) => sum + group.acceptable, 0);
  const webhook = await partOf(call('showWebhook', { id: rejection.webhook_id }));
  const scheme = webhook?.signature_scheme ?? '';
  const { reason } = rejection.last_check ?? rejection;
  const data = {
    rejection,
    retries: webhook === null ? '' : retriesText(scheme),
    sender: secretReasons.includes(reason) && !senderOf(scheme).isGeneral ? presetNamed(scheme) : null,
    isUnsigned: reason === 'header_missing',
    similar: similar?.rejections ?? 0,
    acceptable,
    refused,
    titleOf,
  };
  return formView('rejections/show', sentence(reasonTitle(rejection.reason)), data, feedback);
}

function titleOf(scheme: string): string {
  return presetNamed(scheme)?.title ?? scheme;
}
