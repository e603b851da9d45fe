-- History: counts of requests a minute and an hour, for each webhook and for all webhooks together.

create table history (
  webhook_id uuid not null,
  step integer not null check (step in (60, 3600)),
  at timestamptz not null,
  accepted bigint not null,
  duplicates bigint not null,
  rejected bigint not null,
  limited bigint not null,
  bytes bigint not null,
  primary key (webhook_id, step, at)
) with (fillfactor = 70);
comment on table history is
  'Requests to webhooks. Each process adds its counts every few seconds. The free space of the pages lets the additions keep their place.';
comment on column history.webhook_id is 'Its webhook, which may be deleted by now; the nil UUID: all webhooks together.';
comment on column history.step is 'Seconds of the span: a minute (kept for two days) or an hour.';
comment on column history.at is 'Start of the span.';
comment on column history.accepted is 'Events stored.';
comment on column history.duplicates is 'Events that were stored before.';
comment on column history.rejected is 'Requests refused for their signature.';
comment on column history.limited is 'Requests refused by the rate limit.';
comment on column history.bytes is 'Bytes of the bodies of accepted events.';
create index history_age on history (step, at);
comment on index history_age is 'For the last hour of all webhooks, and for maintenance.';
