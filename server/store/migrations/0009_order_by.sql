-- Order by key: of the events with one key, an agent gets the next one only when the one before it is finished.
--
-- Compatible from: 1

-- Keys are computed when an event is received (model/order-by.ts), and stored with it; a fan-out copies the key of each subscription to its
-- delivery. Keyed deliveries of an agent with the same key and lane are a queue, by order_number, event_id and id:
--
--     order_number > 0     not begun. One statement's deliveries share a number, and later ones have greater numbers.
--     order_number = 0     begun: it was claimed, and holds the key until it is finished. At most one, by the index deliveries_begun.
--
-- A claim takes the first of a queue only (queries/claims/held.ts). What is held by it leaves the range of claims: its available_at becomes
-- infinity. When a delivery leaves deliveries_live, for whatever reason, pass_turn() makes the next one available.
alter table subscriptions add column order_by text check (length(order_by) between 1 and 1000);
alter table subscriptions add column order_id bigint;
comment on column subscriptions.order_by is 'Where an event has the key by which its deliveries are ordered, see model/order-by.ts; null: they are not ordered.';
comment on column subscriptions.order_id is
  'Random, the same for equal order_by of a webhook: names the key in events.order_keys, and is the secret of its hash. In a cell it is without order_by.';

alter table events add column order_keys bigint[];
comment on column events.order_keys is 'Pairs of subscriptions.order_id and the hash of the key, for each order_by of the webhook at the time of receipt; null: no key.';

alter table deliveries add column order_key bigint;
alter table deliveries add column order_lane bigint;
alter table deliveries add column order_number bigint;
comment on column deliveries.order_key is 'Hash of the key by which it is ordered; null: it is not ordered.';
comment on column deliveries.order_lane is '0, or random for each replay: only deliveries of the same lane wait for each other. Null: it is not ordered.';
comment on column deliveries.order_number is 'Its place among those with the same key and lane, 0 once it was claimed. Null: it is not ordered.';
comment on column deliveries_live.order_key is 'As in deliveries.';
comment on column deliveries_live.order_lane is 'As in deliveries.';
comment on column deliveries_live.order_number is 'As in deliveries.';
comment on column deliveries_finished.order_key is 'As in deliveries.';
comment on column deliveries_finished.order_lane is 'As in deliveries.';
comment on column deliveries_finished.order_number is 'As in deliveries.';

create index deliveries_in_order on deliveries_live (agent_id, order_key, order_lane, order_number, event_id, id) where order_key is not null;
comment on index deliveries_in_order is 'For the first delivery of a key. Only ordered deliveries are in it.';
create unique index deliveries_begun on deliveries_live (agent_id, order_key, order_lane) where order_number = 0;
comment on index deliveries_begun is
  'Two claims at a time may each see another delivery as the first one of a key, when transactions commit in another order than they got their numbers. The second one fails, and is repeated.';

create sequence order_numbers;
comment on sequence order_numbers is 'Numbers of statements that create ordered deliveries. A statement that begins after the commit of another one has a greater number.';

-- With its first order_by an installation changes from fan_out() to this function; its cost for other subscriptions is one comparison.
create function fan_out_in_order() returns trigger language plpgsql as $$
begin
  insert into deliveries_live (id, webhook_id, agent_id, event_id, received_at, bytes, order_key, order_lane, order_number)
  select delivery_id(a.id), a.webhook_id, s.agent_id, a.id, a.received_at, a.bytes,
    case when s.order_id is not null then a.order_keys[array_position(a.order_keys, s.order_id) + 1] end,
    case when s.order_id is not null and array_position(a.order_keys, s.order_id) is not null then 0 end,
    -- One number for the whole statement: a subquery without references is evaluated once.
    case when s.order_id is not null and array_position(a.order_keys, s.order_id) is not null then (select nextval('order_numbers')) end
  from arrived a
  join subscriptions s using (webhook_id)
  join agents on agents.id = s.agent_id and agents.revoked_at is null;
  return null;
end
$$;
comment on function fan_out_in_order is 'Creates the deliveries of the events of one statement, as fan_out() does, with the keys of ordered subscriptions.';

create function pass_turn() returns trigger language plpgsql
  set enable_seqscan to off set enable_bitmapscan to off set enable_sort to off as $$
declare
  next record;
begin
  -- Waits for a claim that is about to hold it (queries/claims/held.ts).
  select received_at, id, webhook_id, state, available_at, order_number into next
  from deliveries_live
  where agent_id = old.agent_id and order_key = old.order_key and order_lane = old.order_lane and state in ('pending', 'leased')
  order by order_number, event_id, id
  limit 1
  for no key update;
  -- Claims do not look at deliveries that could be claimed long ago, see deliver/claims/marks.ts.
  if next.state = 'pending' and next.order_number > 0
    and (next.available_at > now() or next.available_at < now() - interval '5 seconds') then
    update deliveries_live set available_at = now()
    where received_at = next.received_at and id = next.id and webhook_id = next.webhook_id;
  end if;
  return null;
end
$$;
comment on function pass_turn is 'A delivery is no longer pending or leased: makes the next one of its key available.';

create or replace function enable_fan_out() returns trigger language plpgsql as $$
declare
  enabled text := (
    select proname from pg_trigger join pg_proc on pg_proc.oid = tgfoid
    where tgrelid = 'events'::regclass and tgname = 'events_fan_out' and tgenabled <> 'D');
begin
  if enabled is null and exists (select from subscriptions) then
    -- Replaces the disabled trigger of earlier versions, and the one of a first subscription that was created at the same time.
    create or replace trigger events_fan_out after insert on events
      referencing new table as arrived for each statement execute function fan_out();
    comment on trigger events_fan_out on events is 'Created by the first subscription, see enable_fan_out().';
  end if;
  if enabled is distinct from 'fan_out_in_order' and exists (select from subscriptions where order_id is not null) then
    create or replace trigger events_fan_out after insert on events
      referencing new table as arrived for each statement execute function fan_out_in_order();
    comment on trigger events_fan_out on events is 'Created by the first ordered subscription, see enable_fan_out().';
    create or replace trigger deliveries_pass_turn after delete on deliveries_live
      for each row when (old.order_key is not null) execute function pass_turn();
    comment on trigger deliveries_pass_turn on deliveries_live is 'Created by the first ordered subscription, see enable_fan_out().';
  end if;
  return null;
end
$$;
comment on function enable_fan_out is
  'Creates the fan-out trigger with the first subscription, and replaces it with the first ordered one. It stays: a trigger costs claims and events of installations that do not need it.';
create or replace trigger subscriptions_enable_fan_out after insert or update of order_id on subscriptions
  for each statement execute function enable_fan_out();
comment on trigger subscriptions_enable_fan_out on subscriptions is 'See enable_fan_out().';

-- What was received before a change is not ordered any more. The rest of a queue of more than that passes on in order.
create function free_keys() returns trigger language plpgsql as $$
begin
  update deliveries_live d
  set order_key = null, order_lane = null, order_number = null,
    available_at = case when d.available_at = 'infinity' then now() else d.available_at end
  from (
    select received_at, id, webhook_id from deliveries_live
    where agent_id = old.agent_id and webhook_id = old.webhook_id and order_key is not null
    -- From the end of the queues: what is left of one keeps its first, which passes on.
    order by order_key desc, order_lane desc, order_number desc, event_id desc, id desc
    limit 100000
    for update skip locked
  ) held
  where d.received_at = held.received_at and d.id = held.id and d.webhook_id = held.webhook_id;
  return null;
end
$$;
comment on function free_keys is 'The order_by of a subscription was changed, or the subscription ended: its deliveries no longer wait for each other.';
create trigger subscriptions_free_keys after update of order_id on subscriptions
  for each row when (old.order_id is not null and new.order_id is distinct from old.order_id) execute function free_keys();
comment on trigger subscriptions_free_keys on subscriptions is 'See free_keys().';
create trigger subscriptions_end_order after delete on subscriptions
  for each row when (old.order_id is not null) execute function free_keys();
comment on trigger subscriptions_end_order on subscriptions is 'See free_keys().';

-- Processes cache the keys that an event gets with its webhook, and whether its claims look at keys with the agent. The webhook is announced
-- first (triggers run in the order of their names): a command waits until the announcement of the agent has been applied.
create trigger announce_order_of_webhook after update of order_by on subscriptions
  for each row when (new.order_by is distinct from old.order_by) execute function announce_webhook('webhook_id');
comment on trigger announce_order_of_webhook on subscriptions is 'A subscription is inserted without an order_by.';
create trigger announce_end_of_order after delete on subscriptions
  for each row when (old.order_by is not null) execute function announce_webhook('webhook_id');
comment on trigger announce_end_of_order on subscriptions is 'A subscription without an order_by says nothing about its webhook.';
create or replace trigger subscriptions_announce after insert or delete or update of filter, order_by on subscriptions
  for each row execute function announce_agent_of_webhooks();
comment on trigger subscriptions_announce on subscriptions is 'All columns except the counts of failed filters.';
create or replace trigger subscriptions_copy after insert or delete or update of filter, filter_slow, filter_slow_at, order_id on subscriptions
  for each row execute function note_cell_copy('agent', 'agent_id');
comment on trigger subscriptions_copy on subscriptions is 'A subscription is copied with its agent.';
