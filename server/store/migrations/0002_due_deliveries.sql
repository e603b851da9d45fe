-- Answers with one probe whether a delivery waits for an agent, since when, and how many it has under lease, whatever the number of its webhooks.
--
-- The index replaces deliveries_live_of_agent, which the list of an agent's live deliveries read: the list sorts them now. The partial indexes
-- find the agents with filters, for which the oldest delivery is not enough.
--
-- Compatible from: 1

create index deliveries_due on deliveries_live (agent_id, available_at) where bytes >= 0;
comment on index deliveries_due is
  'For what waits for an agent, and what it has under lease. Each row is in it, but only statements that name the condition use it: a claim that was planned for the empty table would read the deliveries of all webhooks of its agent.';
drop index deliveries_live_of_agent;

create index subscriptions_filtered on subscriptions (agent_id) where filter is not null;
comment on index subscriptions_filtered is 'For the agents with filters.';
create index replay_targets_filtered on replay_targets (agent_id) where filter is not null;
comment on index replay_targets_filtered is 'For the agents with filters.';
