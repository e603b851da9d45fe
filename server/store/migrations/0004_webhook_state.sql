-- What is known of all webhooks, one narrow row each: written behind in one update that needs no index, and read without the history.
--
-- A release that does not know the table writes last events and uses of secrets to their former columns, which are still read beside it. What
-- it counts is missing in events and bytes.
--
-- Compatible from: 1

create table webhook_state (
  webhook_id uuid primary key,
  last_event_at timestamptz,
  events bigint not null default 0,
  bytes bigint not null default 0,
  kept_from timestamptz not null default '-infinity',
  hour integer not null default 0,
  hours bit(168) not null default 0::bit(168),
  recent float8 not null default 0,
  secret_id uuid,
  uses bigint not null default 0,
  used_at timestamptz,
  previous_uses bigint not null default 0,
  previous_used_at timestamptz
) with (fillfactor = 60);
comment on table webhook_state is
  'What requests change of a webhook, written behind with the history. Without a row: no request yet. The free space of the pages lets the updates keep their place.';
comment on column webhook_state.webhook_id is 'The webhook.';
comment on column webhook_state.last_event_at is 'When the last event was received; null: webhooks.last_event_at holds.';
comment on column webhook_state.events is 'Stored events, by the hours of the history from kept_from on.';
comment on column webhook_state.bytes is 'Bytes of their bodies.';
comment on column webhook_state.kept_from is 'First hour that events and bytes count. Earlier ones were removed by retention.';
comment on column webhook_state.hour is 'Hour of hours and recent: hours since 1970.';
comment on column webhook_state.hours is 'Hours with events in the seven days until hour; the last bit is hour.';
comment on column webhook_state.recent is 'Events until hour, those of 12 hours before counted half: which webhooks are the busiest.';
comment on column webhook_state.secret_id is 'The current secret, which uses counts; null: not known yet.';
comment on column webhook_state.uses is 'Requests that the current secret verified, beside webhook_secrets.uses.';
comment on column webhook_state.used_at is 'When it last verified a request.';
comment on column webhook_state.previous_uses is 'Requests that the previous secret verified, beside webhook_secrets.uses.';
comment on column webhook_state.previous_used_at is 'When it last verified a request.';

insert into webhook_state (webhook_id, events, bytes, hour, hours, recent)
select webhook_id, sum(accepted), sum(bytes), max(ago + hour),
  coalesce(bit_or(1::bit(168) << ago) filter (where accepted > 0 and ago < 168), 0::bit(168)),
  coalesce(sum(accepted * power(0.5, ago / 12.0::float8)) filter (where ago < 168), 0)
from (
  select webhook_id, accepted, bytes, hour, greatest(floor(date_part('epoch', now()) / 3600)::int - hour, 0) as ago
  from (select *, floor(date_part('epoch', at) / 3600)::int as hour from history where step = 3600 offset 0) h
  offset 0
) h
where webhook_id <> '00000000-0000-0000-0000-000000000000'
group by webhook_id;
