/** /rejections: rejected requests, the reason, and whether the signature would verify now. */
import { rejectionReasonNames } from '../signatures/diagnosis/reasons.ts';
import { filtersOf } from './filters.ts';
import { choicesOf, listBy } from './names.ts';
import { asProblem, listOf, type Page, redirect, view } from './page.ts';

const rejectionList: Page = async ({ call, query }) => {
  const given = filtersOf(query, ['webhook_id', 'reason', 'cursor']);
  const { filters, listed } = await listBy(call, 'listRejections', given);
  const webhooks = await choicesOf(call, 'listWebhooks', [filters.webhook_id]);
  if (listed.kind === 'problem') return listed;
  return view('rejections/list', 'Rejections', { filters, ...listOf(listed), webhooks, reasons: rejectionReasonNames });
};

const showRejection: Page = async ({ call, id }) => {
  const rejection = await call('showRejection', { id });
  if (rejection.kind !== 'done') return asProblem(rejection);
  return view('rejections/show', `Rejection ${id.slice(-8)}`, { rejection: rejection.body });
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

export const rejectionPages = { rejectionList, showRejection, recheckRejection, acceptRejection };
