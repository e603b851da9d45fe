-- Order by key: what a revoked agent leaves behind is dismissed without a search for each delivery, and holds nothing once the agent is restored.
--
-- Compatible from: 1

create or replace function pass_turn() returns trigger language plpgsql
  set enable_seqscan to off set enable_bitmapscan to off set enable_sort to off as $$
declare
  next record;
begin
  -- No claim takes the next one of a revoked agent. The look-up below reads again all of the key that this statement has removed: without this
  -- condition, to dismiss 10,000 deliveries of one key read 50 million entries of the index. A claimed one, the usual case, is the only one of its key.
  if old.order_number > 0 and exists (select from agents where id = old.agent_id and revoked_at is not null) then
    return null;
  end if;
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
comment on function pass_turn is 'A delivery is no longer pending or leased: makes the next one of its key available, unless its agent was revoked.';

-- Without this, a delivery that waited for one that was dismissed or moved would never be claimed, and neither would later events of its key.
-- Few are set: a delivery that holds others was not set aside, unless the one before it went while the agent was revoked.
create function pass_turns_of_agent() returns trigger language plpgsql set enable_seqscan to off set enable_sort to off as $$
begin
  update deliveries_live d set available_at = now()
  from (
    select distinct on (order_key, order_lane) received_at, id, webhook_id, available_at
    from deliveries_live
    where agent_id = new.id and order_key is not null and state in ('pending', 'leased')
    order by order_key, order_lane, order_number, event_id, id
  ) first
  where first.available_at = 'infinity'
    and d.received_at = first.received_at and d.id = first.id and d.webhook_id = first.webhook_id;
  return null;
end
$$;
comment on function pass_turns_of_agent is 'A revoked agent was restored: makes the first delivery of each of its keys available.';
create trigger agents_pass_turns after update of revoked_at on agents
  for each row when (old.revoked_at is not null and new.revoked_at is null) execute function pass_turns_of_agent();
comment on trigger agents_pass_turns on agents is 'See pass_turns_of_agent(). In a cell, a copy of the agent restores it.';
