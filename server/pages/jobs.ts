/** /events/replay asks before many events are replayed; /jobs lists the jobs that do it, with their progress. */
import { chipsOf, countOf, type FilterName, filterLabels } from './events.ts';
import { filtersOf } from './filters.ts';
import { list } from './form.ts';
import { formErrors, noErrors } from './form-errors.ts';
import { choicesOf, idsOf, listBy, namesOf } from './names.ts';
import { asProblem, listOf, type Page, type PageRequest, redirect, view } from './page.ts';

const names = Object.keys(filterLabels) as FilterName[];
type Filters = Partial<Record<FilterName, string>>;

const replayForm: Page = (request) => formView(request, filtersOf(request.query, names), [], noErrors);

const replayEvents: Page = async (request) => {
  const { call, form } = request;
  const filters = filtersOf(form, names);
  const given = list(form, 'agent_ids');
  const agents = await idsOf(call, 'listAgents', given);
  const created =
    'error' in agents
      ? ({ kind: 'invalid', errors: { agent_ids: agents.error } } as const)
      : await call('replayEvents', {
          input: { ...filters, ...(agents.ids.length === 0 ? {} : { agent_ids: agents.ids }) },
        });
  if (created.kind === 'done') return redirect(`/jobs/${created.body.job_id}`, 'job-created');
  return formView(request, filters, given, formErrors(created));
};

const jobList: Page = async ({ call, query }) => {
  const filters = filtersOf(query, ['cursor']);
  const listed = await call('listJobs', { query: filters });
  if (listed.kind === 'problem') return listed;
  return view('jobs/list', 'Replays', { filters, ...listOf(listed) });
};

const showJob: Page = async ({ call, id }) => {
  const shown = await call('showJob', { id });
  if (shown.kind !== 'done') return asProblem(shown);
  const job = shown.body;
  const filters = job.filter as Filters;
  const [webhooks, agents] = await Promise.all([
    namesOf(call, 'listWebhooks', [filters.webhook_id]),
    namesOf(call, 'listAgents', job.agent_ids ?? []),
  ]);
  return view('jobs/show', 'Replay of events', { job, agents, chips: chipsOf(filters, webhooks) });
};

const cancelJob: Page = async ({ call, id }) => {
  const cancelled = await call('cancelJob', { id });
  return cancelled.kind === 'done' ? redirect(`/jobs/${id}`, 'job-cancelled') : asProblem(cancelled);
};

export const jobPages = { replayForm, replayEvents, jobList, showJob, cancelJob };

async function formView(
  { call }: PageRequest,
  given: Filters,
  agentIds: string[],
  { errors, ...status }: ReturnType<typeof formErrors>,
) {
  const { filters, listed } = await listBy(call, 'listEvents', { ...given, limit: '1' });
  if (listed.kind !== 'done' && listed.kind === 'invalid') return asProblem(listed);
  const { limit: _, ...shown } = filters;
  const [count, webhooks, agents] = await Promise.all([
    countOf(call, shown),
    namesOf(call, 'listWebhooks', [shown.webhook_id]),
    choicesOf(call, 'listAgents', agentIds, { revoked: 'false' }),
  ]);
  const data = { filters: shown, count, chips: chipsOf(shown, webhooks), agents, chosen: agentIds, errors };
  return view('events/replay', 'Replay events', data, status);
}
