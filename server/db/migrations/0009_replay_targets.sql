-- A claim walks the webhooks that its agent is subscribed to. An event may be replayed to other agents too: they are told apart here.

create table replay_targets (
  agent_id uuid not null references agents (id) on delete cascade,
  webhook_id uuid not null references webhooks (id) on delete cascade,
  primary key (agent_id, webhook_id)
);
comment on table replay_targets is 'Webhooks whose events were replayed to an agent that was not subscribed to them; claims look there too.';
