-- Processes cache of which webhooks an agent may have deliveries (Agent in queries/agents.ts), so every change of that announces the agent.
--
-- Compatible from: 42

create function announce_agent_of_webhooks() returns trigger language plpgsql as $$
begin
  perform pg_notify('weir_changes', 'agent:' || case when tg_op = 'DELETE' then old.agent_id else new.agent_id end);
  return null;
end
$$;
comment on function announce_agent_of_webhooks is 'Announces the agent of a subscription or a replay target to every process.';
create trigger subscriptions_announce after insert or delete or update of filter on subscriptions
  for each row execute function announce_agent_of_webhooks();
comment on trigger subscriptions_announce on subscriptions is 'All columns except the counts of failed filters.';
create trigger replay_targets_announce after insert or delete or update of filter on replay_targets
  for each row execute function announce_agent_of_webhooks();
comment on trigger replay_targets_announce on replay_targets is 'All columns except the counts of slow filters.';
