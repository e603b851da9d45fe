-- Leases that used up the last attempt, and deliveries that wait for an agent that is no longer subscribed.

alter table deliveries add column last_lease boolean not null default false;
comment on column deliveries.last_lease is 'This lease used up DELIVERY_MAX_ATTEMPTS; when it ends without an answer, the delivery becomes a dead letter.';
-- Almost always empty: claims and acks do not touch it, except at the last attempt.
create index deliveries_last_lease on deliveries (available_at) where state = 'leased' and last_lease;

comment on table replay_targets is
  'Webhooks that an agent may have deliveries of without being subscribed: replayed to it, or waiting when it was unsubscribed. Claims look there too.';
insert into replay_targets (agent_id, webhook_id)
select distinct d.agent_id, d.webhook_id
from deliveries d
join agents a on a.id = d.agent_id
join webhooks w on w.id = d.webhook_id
where d.state in ('pending', 'leased')
  and not exists (select from subscriptions s where s.agent_id = d.agent_id and s.webhook_id = d.webhook_id)
on conflict do nothing;
