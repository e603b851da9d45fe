/** /rejections: rejected requests in groups with the same reason, how to fix it by a button, and whether they would verify now. */
import type { Success } from '../../manage/api/operation.ts';
import type { Operations } from '../../manage/api/operations.ts';
import { recordId } from '../../model/fields.ts';
import { rejectionReasonNames } from '../../model/signatures/diagnosis/reasons.ts';
import { reasonTitle } from '../../model/signatures/diagnosis/titles.ts';
import { presetNamed } from '../../model/signatures/presets.ts';
import { retriesText } from '../../model/signatures/retries.ts';
import { type FormFeedback, formErrors, noErrors } from '../forms/errors.ts';
import { filtersOf } from '../forms/filters.ts';
import { field, optional } from '../forms/form.ts';
import { choicesOf, listBy } from '../names.ts';
import {
  asProblem,
  itemsOf,
  listOf,
  type Page,
  type PageReply,
  type PageRequest,
  partOf,
  redirect,
  view,
} from '../page.ts';
import { sentence, utc } from '../show.ts';
import { senderOf } from '../webhooks/senders.ts';

/** Rows below the groups of reasons. */
const ROWS_SHOWN = '10';

const rejectionList: Page = async ({ call, query }) => {
  const given = filtersOf(query, ['webhook_id', 'reason', 'from', 'to', 'cursor']);
  // Groups are of all times.
  const isFirst = !given.cursor && !given.from && !given.to;
  const rows = isFirst && !given.reason ? { limit: ROWS_SHOWN } : {};
  const {
    filters: { limit: _, ...filters },
    listed,
  } = await listBy(call, 'listRejections', { ...given, ...rows } as typeof given & { limit?: string });
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
    titleOf,
    now: Date.now(),
  };
  return view('rejections/list', 'Rejections', data);
};

const showRejection: Page = async (request) => {
  const rejection = await request.call('showRejection', { id: request.id });
  return rejection.kind === 'done' ? rejectionView(request, rejection.body, noErrors) : asProblem(rejection);
};

const recheckRejection: Page = async ({ call, id }) => {
  const checked = await call('recheckRejection', { id });
  if (checked.kind !== 'done') return asProblem(checked);
  return redirect(`/rejections/${id}`, checked.body.verified ? 'verifies-now' : 'still-refused');
};

const acceptRejection: Page = async ({ call, id }) => {
  const accepted = await call('acceptRejection', { id });
  if (accepted.kind !== 'done') return asProblem(accepted);
  return redirect(`/events/${accepted.body.event_id}`, 'accepted');
};

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
  if (fixed.kind === 'done') {
    const from = recordId.safeParse(field(form, 'webhook_id'));
    const to = from.success ? `/webhooks/${from.data}` : `/rejections/${id}`;
    return redirect(`${to}?count=${fixed.body.verified}`, 'rejection-fixed');
  }
  const rejection = await call('showRejection', { id });
  if (rejection.kind !== 'done') return asProblem(rejection);
  return rejectionView(request, rejection.body, formErrors(fixed), kind);
};

const acceptRejections: Page = async ({ call, form }) => {
  const accepted = await call('acceptRejections', { input: { webhook_id: field(form, 'webhook_id') } });
  if (accepted.kind !== 'done') return asProblem(accepted);
  const { accepted: count, more } = accepted.body;
  return redirect(`/rejections?count=${count}`, more ? 'accepted-many-in-part' : 'accepted-many');
};

export const rejectionPages = {
  rejectionList,
  showRejection,
  recheckRejection,
  acceptRejection,
  fixRejection,
  acceptRejections,
};

type Rejection = Success<Operations['showRejection']['answers']>['body'];

/** Reasons after which the secret at the sender is looked at. */
const secretReasons: readonly Rejection['reason'][] = [
  'header_missing',
  'digest_differs',
  'previous_secret',
  'secret_unset',
];

/** @param refused kind of the fix that was refused */
async function rejectionView(
  { call }: PageRequest,
  rejection: Rejection,
  { errors, ...feedback }: FormFeedback,
  refused: string | null = null,
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
    errors,
    titleOf,
    senderMessage,
  };
  return view('rejections/show', sentence(reasonTitle(rejection.reason)), data, feedback);
}

/** The sender of a scheme, as people know it. */
function titleOf(scheme: string): string {
  return presetNamed(scheme)?.title ?? scheme;
}

/** Instead of the hint of a reason, where the hint says what the operator can do. */
const toSender: Partial<Record<Rejection['reason'], string>> = {
  header_missing: 'The request carries no signature. Sign each request with the secret of the webhook.',
  secret_sent:
    'A header contains the secret itself, which is exposed now. Sign the body with the new secret that you get from us, instead of sending it.',
  signature_encoding:
    'The signature is right, but encoded in another way (hex, base64) than agreed. Correct the encoding.',
  clock_apart:
    'The signature is valid, but its time is too far from the clock of the server. Set the clock of the sending machine, and sign a repeated request with the current time.',
  secret_undecoded:
    'The signature was made with the characters of the secret. Decode the secret (base64 after whsec_, or hex) before you sign with it.',
  url_differs: 'The signature was made for another URL. Use the URL above exactly.',
  secret_unset:
    'The signature was made with an empty or undefined secret. Check whether your setting for the secret is read.',
  scheme_other:
    'The signature is of another scheme than the webhook expects. Let us know by which scheme you sign, so that we can set it.',
};

/**
 * What an operator writes to the sender of a rejected request that only the sender can fix.
 * @param apiUrl base of the URLs of webhooks, without a slash at the end
 */
function senderMessage(rejection: Rejection, apiUrl: string): string {
  const { webhook_id, batch, received_at, last_check, expected_headers } = rejection;
  const { reason, hint } = last_check ?? rejection;
  const url = `${apiUrl}/in/${webhook_id}${batch ? '/batch' : ''}`;
  const where =
    reason === 'header_missing' && expected_headers.length > 0
      ? ` The signature is expected in the header ${expected_headers.join(' or ')}.`
      : '';
  return [
    `The request to ${url} at ${utc(received_at)} got a 403 response: its signature did not verify.`,
    `${sentence(reasonTitle(reason))}: ${toSender[reason] ?? hint}${where}`,
    'Please send the request again after the change.',
  ].join('\n\n');
}
