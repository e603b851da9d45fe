-- Agents, what they are subscribed to, and their deliveries: one event on its way to one agent.

create table agents (
  id uuid primary key,
  name text not null check (length(name) between 1 and 200),
  lookup_id text not null unique check (lookup_id ~ '^[0-9A-Za-z]{12}$'),
  secret_hash bytea not null check (length(secret_hash) = 32),
  generation integer not null default 1 check (generation > 0),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  revoked_at timestamptz
);
comment on table agents is 'Programs that pull events. A rotated or revoked agent has a new generation, which ends its sessions.';
comment on column agents.lookup_id is 'First part of the credential wa_<lookup_id>_..., by which its row is found.';
comment on column agents.secret_hash is 'SHA-256 of the credential''s secret part, which is random: no salt or stretching is needed.';

create table subscriptions (
  webhook_id uuid not null references webhooks (id) on delete cascade,
  agent_id uuid not null references agents (id) on delete cascade,
  created_at timestamptz not null default now(),
  primary key (webhook_id, agent_id)
);
create index subscriptions_of_agent on subscriptions (agent_id);
comment on table subscriptions is 'Which agents get the events of which webhooks; read when events are stored, never cached.';

create function announce_agent() returns trigger language plpgsql as $$
begin
  perform pg_notify('weir_changes', 'agent:' || case when tg_op = 'DELETE' then old.id else new.id end);
  return null;
end
$$;
comment on function announce_agent is 'Tells every process that an agent changed.';
create trigger agents_announce after insert or update or delete on agents
  for each row execute function announce_agent();

--          fan out                 claim                 ack
--   event ---------> pending ----------------> leased ---------> done
--                       ^   nack, lease ended     |
--                       +-------------------------+---> dead   (no attempts left)
--                       replay, from done and dead, attempts from zero
create table deliveries (
  id uuid not null,
  webhook_id uuid not null,
  agent_id uuid not null,
  event_id uuid not null,
  -- The event's own, and the millisecond inside both ids: deliveries are partitioned and dropped with their events.
  received_at timestamptz not null,
  -- Of the event's body: a claim is bounded in bytes before it reads any.
  bytes integer not null,
  state text not null default 'pending' check (state in ('pending', 'leased', 'done', 'dead')),
  available_at timestamptz not null default now(),
  attempts integer not null default 0 check (attempts >= 0),
  leases integer not null default 0,
  finished_at timestamptz check ((finished_at is not null) = (state in ('done', 'dead'))),
  reason text check (length(reason) <= 500),
  primary key (received_at, id, webhook_id)
) partition by range (received_at);
comment on table deliveries is 'One event on its way to one agent.';
comment on column deliveries.available_at is 'pending: claimable from then on; leased: the lease ends then, and it is claimable again.';
comment on column deliveries.attempts is 'Claims that count against DELIVERY_MAX_ATTEMPTS; from zero again after a replay.';
comment on column deliveries.leases is 'Claims ever; with the id it makes the receipt, which so is never given twice.';
comment on column deliveries.reason is 'What the agent said with its last nack.';

-- Claims walk it from the oldest; finished deliveries leave it.
create index deliveries_claimable on deliveries (agent_id, webhook_id, available_at) where state in ('pending', 'leased');
create index deliveries_of_agent on deliveries (agent_id, received_at, id);

create function delivery_id(event_id uuid) returns uuid language sql volatile as $$
  select (left(event_id::text, 15) || substr(gen_random_uuid()::text, 16))::uuid
$$;
comment on function delivery_id is 'A UUIDv7 of the same millisecond as the event''s.';

create function fan_out() returns trigger language plpgsql as $$
begin
  insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes)
  select delivery_id(arrived.id), arrived.webhook_id, subscriptions.agent_id, arrived.id, arrived.received_at, arrived.bytes
  from arrived
  join subscriptions using (webhook_id)
  join agents on agents.id = subscriptions.agent_id and agents.revoked_at is null;
  return null;
end
$$;
comment on function fan_out is 'Makes the deliveries of the events of one statement, in its transaction.';
create trigger events_fan_out after insert on events
  referencing new table as arrived for each statement execute function fan_out();

-- While nobody is subscribed the fan-out is off: to keep the rows of each statement for it took 15 % of the ingest rate (median of
-- 7 rounds). The first subscription turns it on in its own transaction, whose lock lets the COPYs under way end first.
alter table events disable trigger events_fan_out;

create function enable_fan_out() returns trigger language plpgsql as $$
begin
  if exists (select from subscriptions) and exists (
    select from pg_trigger where tgrelid = 'events'::regclass and tgname = 'events_fan_out' and tgenabled = 'D'
  ) then
    alter table events enable trigger events_fan_out;
  end if;
  return null;
end
$$;
comment on function enable_fan_out is 'Turns the fan-out on with the first subscription; it stays on.';
create trigger subscriptions_enable_fan_out after insert on subscriptions
  for each statement execute function enable_fan_out();

create table dedupe_keys (
  webhook_id uuid not null,
  -- SHA-256 of the header's value; '#' and the line number follow it for the lines of a batch.
  key bytea not null check (length(key) = 32),
  event_id uuid not null,
  expires_at timestamptz not null,
  primary key (webhook_id, key)
);
create index dedupe_keys_expiry on dedupe_keys (expires_at);
comment on table dedupe_keys is 'Values of a webhook''s dedupe_header that were seen, and the event that was first.';
