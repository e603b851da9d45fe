-- How long events take, as histograms. Code that does not know the table continues to work.
--
-- A row a bucket that occurred: latencies of a webhook or an agent fall into few of the 128 buckets, and additions are plain sums.
--
-- Compatible from: 42

create table latency (
  subject_id uuid not null,
  step integer not null check (step in (3600, 86400)),
  at timestamptz not null,
  stage smallint not null check (stage between 0 and 3),
  bucket smallint not null check (bucket between 0 and 127),
  count bigint not null,
  primary key (subject_id, step, at, stage, bucket)
) with (fillfactor = 70);
comment on table latency is
  'Times from the receipt of events to their commit, first claim and acknowledgement, counted by length. Each process adds its counts every minute. The free space of the pages lets the additions keep their place.';
comment on column latency.subject_id is 'The webhook or the agent, which may be deleted by now.';
comment on column latency.step is 'Seconds of the span: an hour (kept for two days) or a day (kept for 31).';
comment on column latency.at is 'Start of the span.';
comment on column latency.stage is '0: stored, 1: first claim, 2: acknowledged, 3: claimed again after a failed attempt, which is counted and not timed.';
comment on column latency.bucket is 'See server/model/latency.ts; 0 for stage 3.';
comment on column latency.count is 'How many took so long.';
create index latency_age on latency (step, at);
comment on index latency_age is 'For the latency of all webhooks and agents, and for maintenance.';
