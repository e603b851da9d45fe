/** /events/replay asks before many events are replayed; /events/replays lists the jobs that do it, with their progress. */
import { chipsOf, type FilterName, filterLabels } from '../events/events.ts';
import { fieldError, filtersOf, formErrors, list, noErrors } from '../forms/form.ts';
import { choicesOf, idsOf, listBy, namesOf } from '../names.ts';
import {
  action,
  asProblem,
  type FormFeedback,
  formView,
  listOf,
  type Page,
  type PageRequest,
  partOf,
  redirect,
  view,
} from '../page.ts';

const filterNames = Object.keys(filterLabels) as FilterName[];
type Filters = Partial<Record<FilterName, string>>;

const replayForm: Page = (request) =>
  replayView(request, filtersOf(request.query, filterNames), noRecipients, noErrors);

const noRecipients = { agentIds: [] as string[], beyond: false };

const replayEvents: Page = async (request) => {
  const { call, form } = request;
  const filters = filtersOf(form, filterNames);
  const chosen = { agentIds: list(form, 'agent_ids'), beyond: form.has('beyond') };
  const agents = await idsOf(call, 'agents', chosen.agentIds);
  if ('error' in agents) return replayView(request, filters, chosen, fieldError('agent_ids', agents.error));
  if (form.has('preview')) return replayView(request, filters, { ...chosen, agentIds: agents.ids }, noErrors);
  const created = await call('replayEvents', { input: replayInputOf(filters, { ...chosen, agentIds: agents.ids }) });
  if (created.kind === 'done' && created.status === 202)
    return redirect(`/events/replays/${created.body.job_id}`, 'job-created');
  if (created.kind === 'done') throw new Error('a replay without preview was answered by a preview');
  return replayView(request, filters, chosen, formErrors(created));
};

function replayInputOf(filters: Filters, { agentIds, beyond }: typeof noRecipients) {
  return { ...filters, ...(agentIds.length === 0 ? {} : { agent_ids: agentIds }), beyond_subscriptions: beyond };
}

const jobList: Page = async ({ call, query }) => {
  const filters = filtersOf(query, ['cursor']);
  const listed = await call('listJobs', { query: filters });
  if (listed.kind === 'problem') return listed;
  return view('jobs/list', 'Replays', { filters, ...listOf(listed) });
};

const showJob = action('showJob', async ({ body: job }, { call }) => {
  const filters = job.filter as Filters;
  const [webhooks, agents] = await Promise.all([
    namesOf(call, 'webhooks', [filters.webhook_id]),
    namesOf(call, 'agents', job.agent_ids ?? []),
  ]);
  return view('jobs/show', 'Replay of events', { job, agents, chips: chipsOf(filters, webhooks) });
});

const cancelJob = action('cancelJob', (_, { id }) => redirect(`/events/replays/${id}`, 'job-cancelled'));

export const jobPages = { replayForm, replayEvents, jobList, showJob, cancelJob };

async function replayView({ call }: PageRequest, given: Filters, chosen: typeof noRecipients, feedback: FormFeedback) {
  const { filters: shown, listed } = await listBy(call, 'listEvents', given, { limit: '1', withinMs: 0 });
  if (listed.kind === 'invalid') return asProblem(listed);
  const isUnknown = feedback.errors.agent_ids !== undefined;
  const { webhook_id: webhookId } = shown;
  const [previewed, webhooks, agents, counted] = await Promise.all([
    call('replayEvents', {
      input: { ...replayInputOf(shown, isUnknown ? noRecipients : chosen), preview: true },
    }),
    namesOf(call, 'webhooks', [shown.webhook_id]),
    choicesOf(call, 'agents', chosen.agentIds, { active: true }),
    webhookId === undefined ? null : partOf(call('listEventTypes', { id: webhookId })),
  ]);
  // Without any type there is nothing to choose.
  const types = counted?.items.some(({ event_type }) => event_type !== null) ? counted : null;
  const { type: _type, ...others } = shown;
  const chipped = types === null ? shown : others;
  const preview = previewed.kind === 'done' && previewed.status === 200 ? previewed.body : null;
  const data = { filters: shown, preview, chips: chipsOf(chipped, webhooks), agents, chosen, types };
  return formView('events/replay', 'Replay events', data, feedback);
}
