-- The webhooks of an agent in the order of their ids: the first of them, and how many there are, without its other rows.
--
-- Compatible from: 1

create index subscriptions_by_agent on subscriptions (agent_id, webhook_id);
comment on index subscriptions_by_agent is 'For claims, and for the lists and the page of an agent.';
drop index subscriptions_of_agent;
create index webhooks_deleted on webhooks (id) where deleted_at is not null;
comment on index webhooks_deleted is 'For the number of webhooks of an agent.';
