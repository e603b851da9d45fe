-- Order by key: what a revoked agent left behind does not wait for each other, and costs nothing to dismiss.
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
create function free_keys_of_agent() returns trigger language plpgsql as $$
begin
  update deliveries_live
  set order_key = null, order_lane = null, order_number = null,
    available_at = case when available_at = 'infinity' then now() else available_at end
  where agent_id = new.id and order_key is not null;
  return null;
end
$$;
comment on function free_keys_of_agent is 'A revoked agent was restored: its deliveries no longer wait for each other.';
create trigger agents_free_keys after update of revoked_at on agents
  for each row when (old.revoked_at is not null and new.revoked_at is null) execute function free_keys_of_agent();
comment on trigger agents_free_keys on agents is 'See free_keys_of_agent(). In a cell, a copy of the agent restores it.';
