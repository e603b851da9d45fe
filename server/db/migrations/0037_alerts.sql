-- Alerts: conditions that need a person, and the requests that report them to ALERT_URL.
--
--   begins (over its threshold) ---> active ---> calm for long enough ---> ended
--   each of the two ends makes one request: pending ---> sent
--                                             +--------> failed   (no attempts left, or too old)

alter table webhooks add column expect_every_seconds integer check (expect_every_seconds between 60 and 31536000);
comment on column webhooks.expect_every_seconds is 'An alert begins when the last event is older; null: none is expected.';

create table alerts (
  id uuid primary key,
  condition text not null check (condition in ('pending', 'dead_letters', 'rejections', 'silent', 'spool')),
  subject_id text not null,
  subject_name text not null,
  since timestamptz not null,
  began_at timestamptz not null,
  value double precision not null,
  threshold double precision,
  checked_at timestamptz not null,
  calm_since timestamptz,
  ended_at timestamptz
);
comment on table alerts is 'Conditions that need a person. Each row begins and ends once; kept for RETENTION_DAYS after its end.';
comment on column alerts.id is 'UUIDv7 of began_at.';
comment on column alerts.condition is 'What is wrong. Units of value and threshold are in resources/alerts.ts.';
comment on column alerts.subject_id is 'Id of the agent or webhook; for the spool: name of the folder of the machine.';
comment on column alerts.subject_name is 'Its name when the alert began.';
comment on column alerts.since is 'Since when the condition has held, which is before Weir noticed it.';
comment on column alerts.began_at is 'When Weir noticed it.';
comment on column alerts.value is 'The value that was last over the end of the condition.';
comment on column alerts.threshold is 'The value above which it began; null: any.';
comment on column alerts.checked_at is 'When it was last found to hold.';
comment on column alerts.calm_since is 'Since when it no longer holds; null: it does. It ends when that has lasted.';
comment on column alerts.ended_at is 'When it ended; null: it is active.';
create unique index alerts_active on alerts (condition, subject_id) where ended_at is null;
comment on index alerts_active is 'A condition of a subject is active once, whichever machine notices it.';
create index alerts_ended_at on alerts (ended_at);
comment on index alerts_ended_at is 'For maintenance, which deletes old alerts.';

create table alert_requests (
  id uuid primary key,
  number bigint not null generated always as identity,
  alert_id uuid not null references alerts on delete cascade,
  type text not null check (type in ('alert.began', 'alert.ended')),
  body text not null,
  created_at timestamptz not null,
  state text not null default 'pending' check (state in ('pending', 'sent', 'failed')),
  attempts integer not null default 0,
  next_attempt_at timestamptz not null,
  last_attempt_at timestamptz,
  last_status integer,
  last_error text,
  unique (alert_id, type)
);
comment on table alert_requests is 'Requests to ALERT_URL. They are sent in the order of their numbers for each condition and subject.';
comment on column alert_requests.id is 'Its webhook-id, the same at each attempt.';
comment on column alert_requests.number is 'Order of creation.';
comment on sequence alert_requests_number_seq is 'Numbers of alert_requests.';
comment on column alert_requests.alert_id is 'Its alert.';
comment on column alert_requests.type is 'The beginning or the end of the alert.';
comment on column alert_requests.body is 'The JSON text that is signed and sent.';
comment on column alert_requests.created_at is 'When it was created. A request that is too old is given up.';
comment on column alert_requests.state is 'failed: given up.';
comment on column alert_requests.attempts is 'Attempts begun. A result counts only for the latest one.';
comment on column alert_requests.next_attempt_at is
  'When the next attempt may begin. An attempt moves it past its own longest duration first, so one machine at a time sends it.';
comment on column alert_requests.last_attempt_at is 'When the latest attempt began; null: none yet.';
comment on column alert_requests.last_status is 'Status of the latest response; null: there was none.';
comment on column alert_requests.last_error is 'Why the latest attempt failed; null: it did not.';
create index alert_requests_pending on alert_requests (next_attempt_at) where state = 'pending';
comment on index alert_requests_pending is 'For the requests that are due.';
