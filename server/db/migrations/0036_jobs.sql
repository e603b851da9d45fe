-- Jobs: work that outlives a request. A primary runs them one at a time (see server/jobs/run.ts).

create table jobs (
  id uuid primary key,
  kind text not null check (kind = 'replay_events'),
  state text not null default 'queued' check (state in ('queued', 'running', 'done', 'cancelled', 'failed')),
  filter jsonb not null,
  agent_ids uuid[],
  until timestamptz not null,
  first_at timestamptz,
  cursor uuid,
  replayed_to timestamptz,
  events bigint not null default 0,
  deliveries bigint not null default 0,
  reason text check (length(reason) <= 500),
  created_by jsonb not null,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  updated_at timestamptz not null default now(),
  finished_at timestamptz,
  check ((state in ('done', 'cancelled', 'failed')) = (finished_at is not null)),
  check ((state = 'failed') = (reason is not null))
);
comment on table jobs is 'Replays of events by filter. Each batch commits its deliveries together with the new cursor and counts.';
comment on column jobs.id is 'The job.';
comment on column jobs.kind is 'What it does.';
comment on column jobs.state is 'queued, running, done, cancelled or failed. A running job is continued by whichever primary runs jobs.';
comment on column jobs.filter is 'Which events, as in the request.';
comment on column jobs.agent_ids is 'To these agents; null: to all that are subscribed to the webhook of an event when it is replayed.';
comment on column jobs.until is 'Events received from this time on are not included: at most when the job was created.';
comment on column jobs.first_at is 'When the first event in its range was received; null: not read yet, or there is none.';
comment on column jobs.cursor is 'Last event that was read; the next batch continues after it.';
comment on column jobs.replayed_to is 'When that event was received.';
comment on column jobs.events is 'Events replayed.';
comment on column jobs.deliveries is 'Deliveries created.';
comment on column jobs.reason is 'Why it failed.';
comment on column jobs.created_by is 'Its author, as in the audit log.';
comment on column jobs.created_at is 'When it was created.';
comment on column jobs.started_at is 'When its first batch began.';
comment on column jobs.updated_at is 'When its last batch was committed.';
comment on column jobs.finished_at is 'When it was done, cancelled or failed. Deleted 30 days later.';
create index jobs_newest on jobs (created_at, id);
comment on index jobs_newest is 'For the list.';
create index jobs_unfinished on jobs (created_at) where state in ('queued', 'running');
comment on index jobs_unfinished is 'For the next job, looked up every few seconds.';
