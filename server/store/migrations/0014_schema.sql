-- The whole schema, from which a new database starts.
--
-- Compatible from: none
--
-- Rules that hold for every table:
-- * Ids are uuid: random for what users create, UUIDv7 for events, deliveries and rejections, so that an id contains its time.
-- * A change that processes cache is announced on channel weir_changes as '<kind>:<id>' by a trigger, also when an operator makes it in
--   psql. A trigger names the columns that count: bookkeeping such as last_used_at must not empty caches.
-- * Credentials are stored as SHA-256: their secret parts are random, so no salt or stretching is needed. Passwords are argon2id.
-- * What Weir must read back (secrets of webhooks, kept answers) is sealed: AES-256-GCM under a key derived from SECRETS_KEY.
-- * Every table, column, function, index and trigger has a comment; a test checks it.

comment on table schema_migrations is 'Applied migrations. The first one creates the whole schema.';
comment on column schema_migrations.version is 'Number of the file in server/store/migrations.';
comment on column schema_migrations.name is 'Name of that file.';
comment on column schema_migrations.applied_at is 'Start of the transaction that applied it. The oldest one is the age of the installation.';
comment on column schema_migrations.compatible_from is 'Oldest version whose release can serve the schema after this migration; null: only releases that have it.';

---------------------------------------------------------------------------------------------------------------------------------------
-- Webhooks and their secrets

create table webhooks (
  id uuid primary key,
  name text not null check (length(name) between 1 and 200),
  description text not null default '' check (length(description) <= 2000),
  enabled boolean not null default true,
  signature_header text check (signature_header ~ '^[a-z0-9!#$%&''*+.^_`|~-]{1,100}$'),
  dedupe_header text check (dedupe_header ~ '^[a-z0-9!#$%&''*+.^_`|~-]{1,100}$'),
  max_payload_bytes integer check (max_payload_bytes > 0),
  rate_limit_max integer check (rate_limit_max > 0),
  retention_days integer check (retention_days > 0),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz,
  last_event_at timestamptz,
  events_removed_before timestamptz,
  signature_scheme text not null default 'sha256' check (signature_scheme ~ '^[a-z0-9-]{1,64}$'),
  scheme_definition jsonb,
  tolerance_seconds integer check (tolerance_seconds between 0 and 31536000),
  public_key text check (length(public_key) between 1 and 2000),
  verify_token bytea,
  event_type_from text check (length(event_type_from) <= 1000),
  undelivered_removed_before timestamptz,
  expect_every_seconds integer check (expect_every_seconds between 60 and 31536000),
  enabled_at timestamptz,
  cell smallint not null default 0 check (cell between 0 and 4095),
  moving_from smallint,
  moving_since timestamptz,
  answer jsonb,
  refused_status smallint check (refused_status in (401, 403)),
  constraint webhooks_scheme_definition_check check ((signature_scheme = 'custom') = (scheme_definition is not null))
);
comment on table webhooks is 'Configured endpoints. Deleting one sets deleted_at, so that its events keep their webhook.';
comment on column webhooks.id is 'Random; the last part of the URL /in/{webhook_id}.';
comment on column webhooks.name is 'For users. Need not be unique.';
comment on column webhooks.description is 'For users.';
comment on column webhooks.enabled is 'False: requests are answered 410.';
comment on column webhooks.signature_header is 'Lower case. If set, only this header carries the signature; null: the two default headers.';
comment on column webhooks.dedupe_header is 'Lower case. The header whose value identifies a repeated request; null: no deduplication.';
comment on column webhooks.max_payload_bytes is 'Lowers WEBHOOK_MAX_PAYLOAD_BYTES for this webhook; null: the setting alone.';
comment on column webhooks.rate_limit_max is 'Requests per window and client address, counted for this webhook alone; null: the limit common to all webhooks.';
comment on column webhooks.retention_days is 'Lowers RETENTION_DAYS for this webhook; null: the setting alone.';
comment on column webhooks.created_at is 'Time of creation.';
comment on column webhooks.updated_at is 'Last change by a user. Not changed by events.';
comment on column webhooks.deleted_at is 'Time of deletion: requests are answered 404, and the secrets are gone. Null: not deleted.';
comment on column webhooks.last_event_at is
  'When its last event was received, written every few seconds. Events are found by time alone: without this column, finding the last one of each webhook would scan all events. Null: none yet.';
comment on column webhooks.events_removed_before is
  'Its events received before this time were removed by its own retention_days, so that maintenance reads each expired event once. Null: none yet.';
comment on column webhooks.signature_scheme is 'Name of a preset (model/signatures/presets.ts), or custom.';
comment on column webhooks.scheme_definition is 'The definition of a custom scheme; null: that of the preset.';
comment on column webhooks.tolerance_seconds is
  'How far the time of a request may be from the clock of the server; 0: not checked. Null: the tolerance of the scheme.';
comment on column webhooks.public_key is 'The public key of the sender, as given; null: the scheme uses a secret.';
comment on column webhooks.verify_token is 'The token of a GET handshake, sealed for the webhook id and verify_token; null: none.';
comment on column webhooks.event_type_from is
  'Where a request has the type of its event, see model/signatures/event-type.ts; none: the events have no type. Null: as the signature scheme says.';
comment on column webhooks.undelivered_removed_before is
  'Undelivered events received before this time were removed by retention_days and KEEP_UNDELIVERED_DAYS; null: none yet.';
comment on column webhooks.expect_every_seconds is 'An alert begins when the last event is older; null: none is expected.';
comment on column webhooks.enabled_at is 'When it was enabled again; null: never. While it was disabled no event was expected.';
comment on column webhooks.cell is 'Where its new events are stored: a cell, or 0 for home. Older events stay where they were stored.';
comment on column webhooks.moving_from is 'The cell that it leaves: until its deduplication keys have followed, no event with a key is stored. Null: it does not move.';
comment on column webhooks.moving_since is 'When the copy of its keys began; null: it does not move.';
comment on column webhooks.answer is 'Response to a request that was stored; null: as the scheme says.';
comment on column webhooks.refused_status is 'Status of the response to a request whose signature is refused; null: as the scheme says.';

create index webhooks_changed on webhooks (updated_at) where deleted_at is null;
comment on index webhooks_changed is
  'The webhooks changed last: their secrets are tried when a signature does not verify, because a sender confuses new webhooks most often.';
create index webhooks_moving on webhooks (id) where moving_from is not null;
comment on index webhooks_moving is 'For the primary, which ends a move that was interrupted.';
create index webhooks_newest on webhooks (created_at, id) where deleted_at is null;
comment on index webhooks_newest is 'For the list, and for the webhooks that a process reads when it starts.';
create index webhooks_expecting on webhooks (id) where expect_every_seconds is not null and deleted_at is null;
comment on index webhooks_expecting is 'For the webhooks that are overdue, which every page with conditions looks for. Most webhooks expect nothing and are not in it.';
create index webhooks_deleted on webhooks (id) where deleted_at is not null;
comment on index webhooks_deleted is 'For the number of webhooks of an agent.';

create table webhook_secrets (
  webhook_id uuid not null references webhooks (id) on delete cascade,
  slot text not null check (slot in ('current', 'previous')),
  sealed bytea not null,
  expires_at timestamptz,
  created_at timestamptz not null default now(),
  id uuid not null unique default gen_random_uuid(),
  uses bigint not null default 0 check (uses >= 0),
  last_used_at timestamptz,
  primary key (webhook_id, slot),
  check ((slot = 'previous') = (expires_at is not null))
);
comment on table webhook_secrets is 'Secrets of webhooks. After a rotation the previous secret verifies until it expires.';
comment on column webhook_secrets.webhook_id is 'Its webhook.';
comment on column webhook_secrets.slot is 'current, or previous: replaced by a rotation, accepted until expires_at.';
comment on column webhook_secrets.sealed is 'The secret, sealed for its webhook id.';
comment on column webhook_secrets.expires_at is 'End of the overlap of a previous secret; null for the current one.';
comment on column webhook_secrets.created_at is 'Time of creation.';
comment on column webhook_secrets.id is 'Stays with the secret when a rotation moves it to the other slot, so that its uses are counted on.';
comment on column webhook_secrets.uses is 'Requests that it verified, written every few seconds for all secrets together. Shows whether a previous secret is still needed.';
comment on column webhook_secrets.last_used_at is 'When it last verified a request, as exact as uses; null: never.';

-- One narrow row for each webhook: written behind in one update that needs no index, and read without the history.
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

create function announce_webhook() returns trigger language plpgsql as $$
declare
  changed jsonb := case when tg_op = 'DELETE' then to_jsonb(old) else to_jsonb(new) end;
begin
  perform pg_notify('weir_changes', 'webhook:' || (changed ->> tg_argv[0]));
  return null;
end
$$;
comment on function announce_webhook is 'Announces a changed webhook to every process. Argument: the column that contains the webhook id.';

create trigger webhooks_announce
  after insert or delete
    or update of name, description, enabled, signature_header, dedupe_header, max_payload_bytes, rate_limit_max, retention_days,
      signature_scheme, scheme_definition, tolerance_seconds, public_key, verify_token, event_type_from, updated_at, deleted_at, cell, moving_from
  on webhooks for each row execute function announce_webhook('id');
comment on trigger webhooks_announce on webhooks is 'All columns except last_event_at and events_removed_before.';

create trigger webhook_secrets_announce after insert or delete or update of slot, sealed, expires_at on webhook_secrets
  for each row execute function announce_webhook('webhook_id');
comment on trigger webhook_secrets_announce on webhook_secrets is 'All columns except the counts of uses.';

---------------------------------------------------------------------------------------------------------------------------------------
-- Events: insert-only. One partition per day (UTC) of received_at, created days ahead by the primary and dropped by retention.

-- received_at is the millisecond in the UUIDv7, so an id alone leads to its partition.
-- No foreign key to webhooks: it would prevent detaching partitions and add a read to the hot path.
create table events (
  id uuid not null,
  webhook_id uuid not null,
  received_at timestamptz not null,
  source_ip inet not null,
  headers bytea not null,
  content_type text,
  body bytea not null,
  bytes integer not null check (bytes >= 0),
  event_type varchar(200),
  order_keys bigint[],
  -- webhook_id is in the key for databases that distribute rows by it.
  primary key (received_at, id, webhook_id)
) partition by range (received_at);
comment on table events is 'Requests that were answered 202. The row was committed before the answer.';
comment on column events.id is 'UUIDv7 of received_at.';
comment on column events.webhook_id is 'Its webhook, which may be deleted by now.';
comment on column events.received_at is 'When the request arrived, to the millisecond.';
comment on column events.source_ip is 'Address of the client, behind trusted proxies.';
comment on column events.headers is 'Field lines "name: value" in UTF-8, joined by line feeds, without credentials and signatures.';
comment on column events.content_type is 'The header of that name; null: absent.';
comment on column events.body is 'The request body, unchanged.';
comment on column events.bytes is 'Length of body.';
comment on column events.event_type is 'The type of the event, as event_type_from of its webhook said; null: the request had none, or it is older than the column.';
comment on column events.order_keys is 'Pairs of subscriptions.order_id and the hash of the key, for each order_by of the webhook at the time of receipt; null: no key.';

-- Bodies differ from each other and are often compressed already: Postgres must not try to compress them.
alter table events alter column body set storage external;

create table dedupe_keys (
  webhook_id uuid not null,
  key bytea not null check (length(key) = 32),
  event_id uuid not null,
  expires_at timestamptz not null,
  primary key (webhook_id, key)
);
comment on table dedupe_keys is 'Values of the dedupe header of a webhook that were received, each with its first event.';
comment on column dedupe_keys.webhook_id is 'Its webhook.';
comment on column dedupe_keys.key is 'SHA-256 of the value of the header. For a line of a batch, # and the line number follow the value.';
comment on column dedupe_keys.event_id is 'The event that a repeated request is answered with.';
comment on column dedupe_keys.expires_at is 'From then on a request with the key is stored as a new event.';
create index dedupe_keys_expiry on dedupe_keys (expires_at);
comment on index dedupe_keys_expiry is 'For maintenance, which deletes expired keys.';

---------------------------------------------------------------------------------------------------------------------------------------
-- Agents and their subscriptions

create table agents (
  id uuid primary key,
  name text not null check (length(name) between 1 and 200),
  lookup_id text not null unique check (lookup_id ~ '^[0-9A-Za-z]{12}$'),
  secret_hash bytea not null check (length(secret_hash) = 32),
  generation integer not null default 1 check (generation > 0),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  revoked_at timestamptz,
  last_seen_at timestamptz,
  last_seen_from inet,
  temporary boolean not null default false,
  max_leased integer check (max_leased between 1 and 10000),
  previous_lookup_id text check (previous_lookup_id ~ '^[0-9A-Za-z]{12}$'),
  previous_secret_hash bytea check (length(previous_secret_hash) = 32),
  previous_generation integer,
  previous_expires_at timestamptz,
  previous_used_at timestamptz,
  paused_at timestamptz,
  constraint agents_previous_check
    check (num_nulls(previous_lookup_id, previous_secret_hash, previous_generation, previous_expires_at) in (0, 4))
);
comment on table agents is 'Programs that consume events.';
comment on column agents.id is 'Random.';
comment on column agents.name is 'For users. Unique among the agents that are not revoked, checked by the service.';
comment on column agents.lookup_id is 'First part of the credential wa_<lookup_id>_<secret>, by which its row is found.';
comment on column agents.secret_hash is 'SHA-256 of the secret part of the credential.';
comment on column agents.generation is 'Rises when the credential is rotated or revoked, which ends all sessions of the agent.';
comment on column agents.created_at is 'Time of creation.';
comment on column agents.updated_at is 'Last change by a user.';
comment on column agents.revoked_at is 'When its credential was revoked; null: valid.';
comment on column agents.last_seen_at is 'Its last authenticated request, to the minute; null: none yet.';
comment on column agents.last_seen_from is 'Client address of that request.';
comment on column agents.temporary is
  'Removed with its deliveries when it is revoked, and an hour after it was last seen. Once revoked it is no longer shown.';
comment on column agents.max_leased is 'Deliveries under lease at a time; null: no limit. Counted by claims, see claim-room.ts.';
comment on column agents.previous_lookup_id is 'lookup_id before the last rotation, if that has an overlap.';
comment on column agents.previous_secret_hash is 'secret_hash before the last rotation, if that has an overlap.';
comment on column agents.previous_generation is
  'generation before the last rotation. The previous credential and its sessions are valid only while this is one less than generation: a later rotation or a revocation ends them.';
comment on column agents.previous_expires_at is 'End of the overlap: the previous credential and its sessions are valid until then.';
comment on column agents.previous_used_at is 'The last request with the previous credential or a session of it, to the minute; null: none since the rotation.';
comment on column agents.paused_at is 'Since when its claims find nothing; null: it is not paused.';
create unique index agents_previous on agents (previous_lookup_id) where previous_lookup_id is not null;
comment on index agents_previous is 'By which the row of a previous credential is found. Most agents have none.';
create index agents_newest on agents (created_at, id);
comment on index agents_newest is 'For the list.';
create index agents_revoked on agents (created_at, id) where revoked_at is not null;
comment on index agents_revoked is 'For the list of revoked agents, and for their unfinished deliveries.';

create function announce_agent() returns trigger language plpgsql as $$
begin
  perform pg_notify('weir_changes', 'agent:' || case when tg_op = 'DELETE' then old.id else new.id end);
  return null;
end
$$;
comment on function announce_agent is 'Announces a changed agent to every process.';
create trigger agents_announce
  after insert or delete or update of name, lookup_id, secret_hash, generation, revoked_at, max_leased, paused_at on agents
  for each row execute function announce_agent();
comment on trigger agents_announce on agents is 'All columns except when and from where it was seen.';

create table subscriptions (
  webhook_id uuid not null references webhooks (id) on delete cascade,
  agent_id uuid not null references agents (id) on delete cascade,
  created_at timestamptz not null default now(),
  filter text check (length(filter) between 1 and 2000),
  filter_failures bigint not null default 0,
  filter_failure text check (length(filter_failure) <= 500),
  filter_failed_at timestamptz,
  filter_slow int not null default 0,
  filter_slow_at timestamptz,
  order_by text check (length(order_by) between 1 and 1000),
  order_id bigint,
  primary key (webhook_id, agent_id)
);
comment on table subscriptions is 'Which agents receive the events of which webhooks. Read when events are stored, never cached.';
comment on column subscriptions.webhook_id is 'The webhook.';
comment on column subscriptions.agent_id is 'The agent.';
comment on column subscriptions.created_at is 'Events received from then on become deliveries.';
comment on column subscriptions.filter is 'CEL expression, see server/model/filters/. Deliveries of events for which it is false become filtered. Null: none.';
comment on column subscriptions.filter_failures is 'Events for which this filter failed since it was set. They are delivered.';
comment on column subscriptions.filter_failure is 'Why it failed last; null: it has not failed.';
comment on column subscriptions.filter_failed_at is 'When it failed last.';
comment on column subscriptions.filter_slow is
  'Events on which this filter took too long or ended its thread, since it was saved; it counts again from 0 after an hour without one.';
comment on column subscriptions.filter_slow_at is 'When it did so last.';
comment on column subscriptions.order_by is 'Where an event has the key by which its deliveries are ordered, see model/order-by.ts; null: they are not ordered.';
comment on column subscriptions.order_id is
  'Random, the same for equal order_by of a webhook: names the key in events.order_keys, and is the secret of its hash. In a cell it is without order_by.';
create index subscriptions_by_agent on subscriptions (agent_id, webhook_id);
comment on index subscriptions_by_agent is 'For claims, and for the lists and the page of an agent.';
create index subscriptions_filtered on subscriptions (agent_id) where filter is not null;
comment on index subscriptions_filtered is 'For the agents with filters.';

create table replay_targets (
  agent_id uuid not null references agents (id) on delete cascade,
  webhook_id uuid not null references webhooks (id) on delete cascade,
  filter text,
  filter_slow int not null default 0,
  filter_slow_at timestamptz,
  primary key (agent_id, webhook_id)
);
comment on table replay_targets is
  'Webhooks of which an agent may have deliveries without a subscription: replayed to it, or pending when it was unsubscribed. A claim searches these webhooks too.';
comment on column replay_targets.agent_id is 'The agent.';
comment on column replay_targets.webhook_id is 'The webhook.';
comment on column replay_targets.filter is
  'Filter of the subscription when it ended, for its deliveries that were waiting; null: none. The filter of a subscription comes first.';
comment on column replay_targets.filter_slow is 'As in subscriptions.';
comment on column replay_targets.filter_slow_at is 'As in subscriptions.';
create index replay_targets_filtered on replay_targets (agent_id) where filter is not null;
comment on index replay_targets_filtered is 'For the agents with filters.';

-- Processes cache of which webhooks an agent may have deliveries (Agent in queries/agents/agents.ts), so every change of that announces the agent.
create function announce_agent_of_webhooks() returns trigger language plpgsql as $$
begin
  perform pg_notify('weir_changes', 'agent:' || case when tg_op = 'DELETE' then old.agent_id else new.agent_id end);
  return null;
end
$$;
comment on function announce_agent_of_webhooks is 'Announces the agent of a subscription or a replay target to every process.';
create trigger subscriptions_announce after insert or delete or update of filter, order_by on subscriptions
  for each row execute function announce_agent_of_webhooks();
comment on trigger subscriptions_announce on subscriptions is 'All columns except the counts of failed filters.';
create trigger replay_targets_announce after insert or delete or update of filter on replay_targets
  for each row execute function announce_agent_of_webhooks();
comment on trigger replay_targets_announce on replay_targets is 'All columns except the counts of slow filters.';

-- Processes cache the keys that an event gets with its webhook, and whether its claims look at keys with the agent. The webhook is announced
-- first (triggers run in the order of their names): a command waits until the announcement of the agent has been applied.
create trigger announce_order_of_webhook after update of order_by on subscriptions
  for each row when (new.order_by is distinct from old.order_by) execute function announce_webhook('webhook_id');
comment on trigger announce_order_of_webhook on subscriptions is 'A subscription is inserted without an order_by.';
create trigger announce_end_of_order after delete on subscriptions
  for each row when (old.order_by is not null) execute function announce_webhook('webhook_id');
comment on trigger announce_end_of_order on subscriptions is 'A subscription without an order_by says nothing about its webhook.';

---------------------------------------------------------------------------------------------------------------------------------------
-- Deliveries: partitioned by day like events, and dropped with them

--          fan out                 claim                 ack
--   event ---------> pending ----------------> leased ---------> done
--                     |  ^   nack, lease expired   |
--                     |  +-------------------------+---> dead   (no attempts left) ---> dismissed   (by a user)
--                     |
--                     +--> filtered   (a claim evaluated the filter of the subscription, which excludes the event)
--
-- A replay by a user makes done, dead, dismissed and filtered pending again, with attempts from zero; filters are not evaluated again.
create table deliveries (
  id uuid not null,
  webhook_id uuid not null,
  agent_id uuid not null,
  event_id uuid not null,
  received_at timestamptz not null,
  bytes integer not null,
  state text not null default 'pending',
  available_at timestamptz not null default now(),
  attempts integer not null default 0,
  leases integer not null default 0,
  finished_at timestamptz,
  reason text,
  last_lease boolean not null default false,
  leased_at timestamptz,
  leased_from inet,
  history jsonb,
  order_key bigint,
  order_lane bigint,
  order_number bigint
) partition by list (state);
comment on table deliveries is 'One event on its way to one agent. Partitioned by state.';
comment on column deliveries.id is 'UUIDv7 of received_at, from delivery_id().';
comment on column deliveries.webhook_id is 'Webhook of the event.';
comment on column deliveries.agent_id is 'The agent.';
comment on column deliveries.event_id is 'The event.';
comment on column deliveries.received_at is 'Of the event, and the millisecond in both ids.';
comment on column deliveries.bytes is 'Length of the body of the event: a claim is limited in bytes before it reads any.';
comment on column deliveries.state is 'See the drawing above the table in the file of its migration.';
comment on column deliveries.available_at is 'pending: claimable from then on. leased: the lease expires then, and the delivery is claimable again.';
comment on column deliveries.attempts is 'Claims that count against DELIVERY_MAX_ATTEMPTS; zero again after a replay.';
comment on column deliveries.leases is 'All claims ever. With the id it makes the receipt, so that no receipt is given twice.';
comment on column deliveries.finished_at is 'When it became done, dead or filtered; null: none of them. Not changed by a dismissal.';
comment on column deliveries.reason is 'Why the last attempt that failed did: what the agent stated with its nack, or that the last lease expired.';
comment on column deliveries.last_lease is
  'This lease used up DELIVERY_MAX_ATTEMPTS. When it expires without an answer, the delivery becomes a dead letter.';
comment on column deliveries.leased_at is 'Start of the last lease; null: none yet.';
comment on column deliveries.leased_from is 'Address of the agent that got the last lease.';
comment on column deliveries.history is
  'Ended leases, replays and dismissals, oldest first, limited in number; see queries/delivery-history.ts. The last lease is added when it ends without an acknowledgement, or at a replay. Null: none.';
comment on column deliveries.order_key is 'Hash of the key by which it is ordered; null: it is not ordered.';
comment on column deliveries.order_lane is '0, or random for each replay: only deliveries of the same lane wait for each other. Null: it is not ordered.';
comment on column deliveries.order_number is 'Its place among those with the same key and lane, 0 once it was claimed. Null: it is not ordered.';

-- A first attempt that succeeds is fully described by leased_at, leased_from, available_at and finished_at, which a claim and an ack
-- write anyway: history stays null. Only what ends otherwise is added to it. Figures are in queries/deliveries/history.ts.

-- Pending and leased deliveries live in one small table, apart from those that are finished: a claim reads one table however many days are
-- kept. The update that finishes a delivery moves its row into the partition of its day, and a replay moves it back. A statement that names
-- the states in its conditions is planned for one of the two. Postgres ends a statement that waited for a row that was moved (40001):
-- pool.ts repeats it. A claim with its ack takes 0.36 (max 1) to 0.69 (max 100) of the CPU that it took in one table a day for all states.
--
-- No CHECK constraints: Postgres plans each of them again in each statement that writes the table (a claim with its ack took 1.14 times the
-- CPU). The partitions allow no other states. Attempts are counted up from zero, a reason has at most 500 characters
-- (manage/api/agent/schema.ts), and a state that ends sets finished_at.
create table deliveries_live (like deliveries including defaults including comments);
comment on table deliveries_live is 'Deliveries that are pending or leased, of all days.';
-- Half of what claims and acks write is dead a moment later. Vacuum of a table this small is cheap, and a large one would slow each claim.
alter table deliveries_live set (
  autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0.2
);
alter table deliveries_live add constraint deliveries_live_pkey primary key (received_at, id, webhook_id);
create index deliveries_claimable on deliveries_live (agent_id, webhook_id, available_at);
comment on index deliveries_claimable is 'For claims, from the oldest delivery on.';
create index deliveries_due on deliveries_live (agent_id, available_at) where bytes >= 0;
comment on index deliveries_due is
  'For what waits for an agent, and what it has under lease. Each row is in it, but only statements that name the condition use it: a claim that was planned for the empty table would read the deliveries of all webhooks of its agent.';
create index deliveries_last_lease on deliveries_live (available_at) where state = 'leased' and last_lease;
comment on index deliveries_last_lease is 'For maintenance, which ends expired last leases. Almost always empty: claims and acks touch it at the last attempt only.';

create table deliveries_finished (
  like deliveries including defaults including comments,
  primary key (received_at, id, webhook_id)
) partition by range (received_at);
comment on table deliveries_finished is 'Deliveries that are done, dead, dismissed or filtered, by day.';
-- Without this index a claim and ack write 880 bytes of WAL instead of 1,110, but an agent with few deliveries among millions could not be
-- listed. Without id in it, it is a third smaller, but Postgres uses it for acks: with 1,000 deliveries of one millisecond, as a batch
-- makes them, an ack took 336 us per delivery instead of 43.
create index deliveries_of_agent on deliveries_finished (agent_id, received_at, id);
comment on index deliveries_of_agent is 'For the list of deliveries of one agent.';

create index deliveries_dead on deliveries_finished (received_at, id) include (agent_id, webhook_id, reason, finished_at)
  where state = 'dead';
comment on index deliveries_dead is
  'Dead letters are few among millions: counting, grouping or listing them must not scan all deliveries. What groups and counts read is in it: each dead letter is in a block of its own.';
create index deliveries_dead_of_agent on deliveries_finished (agent_id, webhook_id, received_at, id) where state = 'dead';
comment on index deliveries_dead_of_agent is 'For counting and replaying the dead letters of one agent. Written only when a delivery dies or is replayed.';
create index deliveries_dead_since on deliveries_finished (finished_at) where state = 'dead';
comment on index deliveries_dead_since is 'For alerts of new dead letters. Written only when a delivery dies or is replayed.';
create index deliveries_dismissed on deliveries_finished (received_at, id) where state = 'dismissed';
comment on index deliveries_dismissed is 'For the list of dismissed deliveries.';

alter table deliveries attach partition deliveries_live for values in ('pending', 'leased');
alter table deliveries attach partition deliveries_finished for values in ('done', 'dead', 'dismissed', 'filtered');

-- CPU of one Postgres 15 backend in us per delivery, medians of 21 alternating rounds, full page images off:
--
--                                                        cut as text   cut as bytes
--     fan-out to 20 agents                                       8.8            6.9
--     one agent (its event included)                            17.7           15.7
--
-- In an earlier run of 9 rounds, fan-out to 20 agents took 10.5 us with both uuids cut as texts, 9.0 cut as bytes, and 7.6 with random()
-- instead of gen_random_uuid (cryptographic). An id need not be secret, since receipts are checked with their agent; it must only
-- differ from the ids of the other deliveries of the same event.
create function delivery_id(event_id uuid) returns uuid language sql volatile as $$
  select encode(overlay(uuid_send(event_id) placing substring(int8send((random() * 4503599627370496)::bigint) from 2) from 10), 'hex')::uuid
$$;
comment on function delivery_id is 'A UUIDv7 of the same millisecond as the event: its first 9 bytes, then 52 random bits.';

create function fan_out() returns trigger language plpgsql as $$
begin
  insert into deliveries_live (id, webhook_id, agent_id, event_id, received_at, bytes)
  select delivery_id(arrived.id), arrived.webhook_id, subscriptions.agent_id, arrived.id, arrived.received_at, arrived.bytes
  from arrived
  join subscriptions using (webhook_id)
  join agents on agents.id = subscriptions.agent_id and agents.revoked_at is null;
  return null;
end
$$;
comment on function fan_out is 'Creates the deliveries of the events of one statement, in its transaction.';

-- The fan-out trigger exists only from the first subscription on.
--
-- A trigger with a transition table costs a COPY its multi-row inserts and a copy of each row, also while the trigger is disabled. CPU of
-- one Postgres 15 backend in us per event of 1 KiB, COPYs of 128 rows, medians of 7 alternating rounds (quartiles of the ratio):
--
--     trigger disabled                                         7.2
--     no trigger                                               6.2   0.84 (0.83 to 0.90)
--     COPY into the day's partition, no trigger on it          5.8   0.81 (0.80 to 0.84)
--     COPY into the partition, a disabled trigger on it              1.07 (1.00 to 1.22), 64 rows a COPY
--
-- A COPY into the partition is not worth its special cases: with a fan-out trigger on it, it costs what a COPY into the parent costs.

create function enable_fan_out() returns trigger language plpgsql as $$
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
create trigger subscriptions_enable_fan_out after insert or update of order_id on subscriptions
  for each statement execute function enable_fan_out();
comment on trigger subscriptions_enable_fan_out on subscriptions is 'See enable_fan_out().';

create table delivery_actions (
  id uuid primary key,
  kind text not null check (kind in ('replay', 'dismissal')),
  created_at timestamptz not null default now(),
  delivery_ids uuid[] not null,
  undone_at timestamptz
);
comment on table delivery_actions is 'Replays and dismissals of many deliveries, kept for a day so that they can be undone.';
comment on column delivery_actions.id is 'Random. The entry of each delivery''s history names it.';
comment on column delivery_actions.kind is 'What was done.';
comment on column delivery_actions.created_at is 'When.';
comment on column delivery_actions.delivery_ids is 'The deliveries, at most 10,000.';
comment on column delivery_actions.undone_at is 'When it was undone; null: it was not.';
create index delivery_actions_created_at on delivery_actions (created_at);
comment on index delivery_actions_created_at is 'For maintenance, which deletes old actions.';

---------------------------------------------------------------------------------------------------------------------------------------
-- Order by key: of the events with one key, an agent gets the next one only when the one before it is finished

-- Keys are computed when an event is received (model/order-by.ts), and stored with it; a fan-out copies the key of each subscription to its
-- delivery. Keyed deliveries of an agent with the same key and lane are a queue, by order_number, event_id and id:
--
--     order_number > 0     not begun. One statement's deliveries share a number, and later ones have greater numbers.
--     order_number = 0     begun: it was claimed, and holds the key until it is finished. At most one, by the index deliveries_begun.
--
-- A claim takes the first of a queue only (queries/claims/held.ts). What is held by it leaves the range of claims: its available_at becomes
-- infinity. When a delivery leaves deliveries_live, for whatever reason, pass_turn() makes the next one available.
create index deliveries_in_order on deliveries_live (agent_id, order_key, order_lane, order_number, event_id, id) where order_key is not null;
comment on index deliveries_in_order is 'For the first delivery of a key. Only ordered deliveries are in it.';
create unique index deliveries_begun on deliveries_live (agent_id, order_key, order_lane) where order_number = 0;
comment on index deliveries_begun is
  'Two claims at a time may each see another delivery as the first one of a key, when transactions commit in another order than they got their numbers. The second one fails, and is repeated.';
create index deliveries_held on deliveries_live (agent_id, received_at) where available_at = 'infinity' and order_lane = 0;
comment on index deliveries_held is 'For agents with a key that is held too long. Written only when a delivery is set aside or passed on.';

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

---------------------------------------------------------------------------------------------------------------------------------------
-- Rejections: samples of requests with a rejected signature, with the reason. A ring, limited in number and bytes (queries/rejections/ring.ts)

create domain rejection_reason as text check (
  value in (
    'header_missing', 'header_other', 'header_repeated', 'secret_sent', 'malformed_empty', 'malformed_no_prefix',
    'malformed_prefix', 'malformed_around', 'malformed_base64', 'malformed_algorithm', 'malformed_length', 'malformed',
    'key_kind', 'signature_encoding', 'clock_apart', 'previous_secret', 'other_webhook', 'secret_space', 'secret_decoded',
    'secret_undecoded', 'secret_unset', 'secret_mode', 'not_hmac', 'url_differs', 'body_empty', 'body_line_end', 'body_trimmed',
    'body_line_breaks', 'body_reencoded', 'body_form_decoded', 'body_charset', 'digest_differs', 'body_too_large',
    'body_too_complex', 'scheme_stripe', 'scheme_slack', 'scheme_zoom', 'scheme_standard_webhooks', 'scheme_shopify',
    'scheme_paddle', 'scheme_github_sha1', 'scheme_gitlab', 'scheme_twilio', 'scheme_ed25519', 'scheme_other', 'verifies_now'
  ));
comment on domain rejection_reason is 'Why a signature was rejected: /docs/reference#reasons-of-refused-signatures lists the reasons. Mirrors model/signatures/diagnosis/reasons.ts.';

create table rejections (
  id uuid primary key,
  webhook_id uuid not null references webhooks (id) on delete cascade,
  received_at timestamptz not null,
  source_ip inet not null,
  reason rejection_reason not null,
  header text,
  otherwise_valid boolean,
  headers bytea not null,
  signatures json not null,
  body bytea check (length(body) <= 1048576),
  bytes integer not null check (bytes >= 0),
  kept_bytes integer generated always as
    (length(headers) + octet_length(signatures::text) + coalesce(length(body), 0)) stored,
  checked_at timestamptz,
  checked_reason rejection_reason,
  other_webhook_id uuid references webhooks (id) on delete set null,
  batch boolean not null default false,
  dedupe_key bytea check (length(dedupe_key) = 32),
  accepted_event_id uuid,
  url text check (length(url) <= 8192),
  check ((checked_at is null) = (checked_reason is null))
);
comment on table rejections is 'Samples of requests with a rejected signature, each with the reason. Never contains a secret.';
comment on column rejections.id is 'UUIDv7 of received_at.';
comment on column rejections.webhook_id is 'The webhook that the request was sent to.';
comment on column rejections.received_at is 'When the request arrived, to the millisecond.';
comment on column rejections.source_ip is 'Address of the client, behind trusted proxies.';
comment on column rejections.reason is 'The reason at the time of the request.';
comment on column rejections.header is 'The header with the fault; null: the fault is not in a header.';
comment on column rejections.otherwise_valid is 'True: only the reason is wrong. Null: unknown.';
comment on column rejections.headers is 'As in events, without any header that contained a secret.';
comment on column rejections.signatures is 'Name, shape and value of each signature header; the value only if it is a digest.';
comment on column rejections.body is 'Null: larger than REJECTION_BODY_BYTES_MAX, or it contained a secret.';
comment on column rejections.bytes is 'Length of the received body.';
comment on column rejections.kept_bytes is 'Bytes that count against the limit of the ring.';
comment on column rejections.checked_at is 'Last recheck; null: none.';
comment on column rejections.checked_reason is 'Result of the last recheck.';
comment on column rejections.other_webhook_id is 'The webhook whose secret signed the request, if found.';
comment on column rejections.batch is 'Sent to /in/{webhook_id}/batch: each line would have been an event.';
comment on column rejections.dedupe_key is 'As in dedupe_keys: the header that it was made of may be one that is not stored.';
comment on column rejections.accepted_event_id is 'The event that it was stored as, or that existed already under its dedupe_key.';
comment on column rejections.url is 'The URL that the sender signed, for schemes that sign it; null: the scheme does not.';
create index rejections_of_webhook on rejections (webhook_id, id);
comment on index rejections_of_webhook is 'For the list of one webhook, and for the oldest one to delete when the webhook is at its limit.';

-- As in events.
alter table rejections alter column body set storage external;

create table request_samples (
  id uuid primary key,
  webhook_id uuid not null,
  received_at timestamptz not null,
  status smallint not null check (status between 200 and 599),
  reason varchar(60) not null,
  source_ip inet not null,
  bytes bigint check (bytes >= 0),
  event_id uuid
);
comment on table request_samples is
  'Samples of requests that were refused for another reason than their signature, and of duplicates. Bounded for each webhook and status, and in total; history has the counts.';
comment on column request_samples.id is 'UUIDv7 of received_at.';
comment on column request_samples.webhook_id is 'The webhook that the request was sent to.';
comment on column request_samples.received_at is 'When the request was answered, to the millisecond.';
comment on column request_samples.status is 'The status of the answer.';
comment on column request_samples.reason is 'Code of the problem, or duplicate.';
comment on column request_samples.source_ip is 'Address of the client, behind trusted proxies.';
comment on column request_samples.bytes is 'Content-Length of the request; null: it had none.';
comment on column request_samples.event_id is 'Of a duplicate: the event that was stored before; else null.';
create index request_samples_of_webhook on request_samples (webhook_id, status, id);
comment on index request_samples_of_webhook is 'For the list of one webhook, and for the oldest of a status to delete.';

---------------------------------------------------------------------------------------------------------------------------------------
-- History: counts of requests a minute and an hour, for each webhook and for all webhooks together

create table history (
  webhook_id uuid not null,
  step integer not null check (step in (60, 900, 3600)),
  at timestamptz not null,
  accepted bigint not null,
  duplicates bigint not null,
  rejected bigint not null,
  limited bigint not null,
  bytes bigint not null,
  disabled bigint not null default 0,
  length_required bigint not null default 0,
  too_large bigint not null default 0,
  unavailable bigint not null default 0,
  by_previous bigint not null default 0,
  primary key (webhook_id, step, at)
) with (fillfactor = 70);
comment on table history is
  'Requests to webhooks. Each process adds its counts every few seconds. The free space of the pages lets the additions keep their place.';
comment on column history.webhook_id is 'Its webhook, which may be deleted by now; the nil UUID: all webhooks together.';
comment on column history.step is 'Seconds of the span: a minute or a quarter of an hour (kept for two days), or an hour.';
comment on column history.at is 'Start of the span.';
comment on column history.accepted is 'Events stored.';
comment on column history.duplicates is 'Events that were stored before.';
comment on column history.rejected is 'Requests refused for their signature.';
comment on column history.limited is 'Requests refused by the rate limit.';
comment on column history.bytes is 'Bytes of the bodies of accepted events.';
comment on column history.disabled is 'Requests refused because the webhook is disabled (410).';
comment on column history.length_required is 'Requests refused because they had no Content-Length (411).';
comment on column history.too_large is 'Requests refused because their body is too large (413).';
comment on column history.unavailable is 'Requests refused because they could not be stored or checked (503).';
comment on column history.by_previous is 'Requests that the previous secret verified, of those that were accepted or duplicates.';
create index history_age on history (step, at);
comment on index history_age is 'For the last hour of all webhooks, and for maintenance.';
create index history_refused on history (step, at)
  where step = 60 and rejected + limited + length_required + too_large + unavailable > 0;
comment on index history_refused is 'For the webhooks with refused requests in the last hour. Most minutes have none and are not in it.';

create table agent_history (
  agent_id uuid not null,
  at timestamptz not null,
  acknowledged bigint not null,
  failed bigint not null,
  ended bigint not null default 0,
  primary key (agent_id, at)
) with (fillfactor = 70);
comment on table agent_history is
  'Attempts of agents by quarter of an hour, kept for two days. Each process adds its counts every few seconds. The free space of the pages lets the additions keep their place.';
comment on column agent_history.agent_id is 'The agent, which may be removed by now.';
comment on column agent_history.at is 'Start of the quarter of an hour.';
comment on column agent_history.acknowledged is 'Deliveries that it acknowledged.';
comment on column agent_history.failed is 'Attempts that it rejected, or whose lease expired.';
comment on column agent_history.ended is 'Deliveries that were acknowledged, filtered, or became dead letters. 0 in rows of releases that did not count them.';
create index agent_history_age on agent_history (at);
comment on index agent_history_age is 'For maintenance.';

create table agent_minutes (
  agent_id uuid not null,
  at timestamptz not null,
  ended bigint not null,
  primary key (agent_id, at)
) with (fillfactor = 70);
comment on table agent_minutes is 'Deliveries of agents that ended, by minute, kept for an hour or two. Written with agent_history.';
comment on column agent_minutes.agent_id is 'The agent, which may be removed by now.';
comment on column agent_minutes.at is 'Start of the minute.';
comment on column agent_minutes.ended is 'Deliveries that were acknowledged, filtered, or became dead letters.';

-- A row a bucket that occurred: latencies of a webhook or an agent fall into few of the 128 buckets, and additions are plain sums.
create table latency (
  subject_id uuid not null,
  step integer not null check (step in (3600, 86400)),
  at timestamptz not null,
  stage smallint not null check (stage between 0 and 3),
  bucket smallint not null check (bucket between 0 and 127),
  count bigint not null,
  primary key (subject_id, step, at, stage, bucket)
) with (fillfactor = 70);
comment on table latency is
  'Times from the receipt of events to their commit, first claim and acknowledgement, counted by length. Each process adds its counts every minute. The free space of the pages lets the additions keep their place.';
comment on column latency.subject_id is 'The webhook or the agent, which may be deleted by now.';
comment on column latency.step is 'Seconds of the span: an hour (kept for two days) or a day (kept for 31).';
comment on column latency.at is 'Start of the span.';
comment on column latency.stage is '0: stored, 1: first claim, 2: acknowledged, 3: claimed again after a failed attempt, which is counted and not timed.';
comment on column latency.bucket is 'See server/model/latency.ts; 0 for stage 3.';
comment on column latency.count is 'How many took so long.';
create index latency_longest on latency (step, at, bucket);
comment on index latency_longest is 'For the slowest webhooks and agents, and for maintenance.';

---------------------------------------------------------------------------------------------------------------------------------------
-- Jobs: work that outlives a request. A primary runs them one at a time (see server/deliver/replay/run.ts)

create table jobs (
  id uuid primary key,
  kind text not null check (kind = 'replay_events'),
  state text not null default 'queued' check (state in ('queued', 'running', 'done', 'cancelled', 'failed')),
  filter jsonb not null,
  agent_ids uuid[],
  until timestamptz not null,
  first_at timestamptz,
  cursor uuid,
  replayed_to timestamptz,
  events bigint not null default 0,
  deliveries bigint not null default 0,
  reason text check (length(reason) <= 500),
  created_by jsonb not null,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  updated_at timestamptz not null default now(),
  finished_at timestamptz,
  beyond_subscriptions boolean not null default false,
  check ((state in ('done', 'cancelled', 'failed')) = (finished_at is not null)),
  check ((state = 'failed') = (reason is not null))
);
comment on table jobs is 'Replays of events by filter. Each batch commits its deliveries together with the new cursor and counts.';
comment on column jobs.id is 'The job.';
comment on column jobs.kind is 'What it does.';
comment on column jobs.state is 'queued, running, done, cancelled or failed. A running job is continued by whichever primary runs jobs.';
comment on column jobs.filter is 'Which events, as in the request.';
comment on column jobs.agent_ids is 'To these agents; null: to all that are subscribed to the webhook of an event when it is replayed.';
comment on column jobs.until is 'Events received from this time on are not included: at most when the job was created.';
comment on column jobs.first_at is 'When the first event in its range was received; null: not read yet, or no event matches.';
comment on column jobs.cursor is 'Last event that was read; the next batch continues after it.';
comment on column jobs.replayed_to is 'When that event was received.';
comment on column jobs.events is 'Events replayed.';
comment on column jobs.deliveries is 'Deliveries created.';
comment on column jobs.reason is 'Why it failed.';
comment on column jobs.created_by is 'Its author, as in the audit log.';
comment on column jobs.created_at is 'When it was created.';
comment on column jobs.started_at is 'When its first batch began.';
comment on column jobs.updated_at is 'When its last batch was committed.';
comment on column jobs.finished_at is 'When it was done, cancelled or failed. Deleted 30 days later.';
comment on column jobs.beyond_subscriptions is 'Also what subscriptions and filters exclude.';
create index jobs_newest on jobs (created_at, id);
comment on index jobs_newest is 'For the list.';
create index jobs_unfinished on jobs (created_at) where state in ('queued', 'running');
comment on index jobs_unfinished is 'For the next job, looked up every few seconds.';

create table job_progress (
  job_id uuid primary key,
  upto uuid not null
);
comment on table job_progress is 'How far a replay job is in this database. It is committed with the deliveries, the cursor of the job only at home.';
comment on column job_progress.job_id is 'The job; its row is at home.';
comment on column job_progress.upto is 'The last event that was replayed.';

---------------------------------------------------------------------------------------------------------------------------------------
-- Issues: conditions that need a person, with the time of each

create table issues (
  id uuid primary key,
  kind text not null,
  subject_id text not null check (length(subject_id) <= 300),
  part text not null default '' check (length(part) <= 1200),
  first_at timestamptz not null,
  last_at timestamptz not null,
  count double precision not null,
  facts json not null,
  resolved_at timestamptz,
  assignee text check (length(assignee) between 1 and 200),
  note text check (length(note) <= 2000),
  snoozed_until timestamptz
);
comment on table issues is 'Conditions that were seen, and groups of rejections and of dead letters. Resolved ones are kept for 90 days, at most 10,000.';
comment on column issues.id is 'UUIDv7 of the time at which Weir noticed it.';
comment on column issues.kind is 'As in model/conditions.ts. `database`: an outage that has ended, as a machine saw it.';
comment on column issues.subject_id is 'Id of the webhook or agent, name of the machine, process id, cell; empty: the installation.';
comment on column issues.part is 'The group, of several of one subject: its reason, and for rejections the header. Empty: there are no groups.';
comment on column issues.first_at is 'When it began.';
comment on column issues.last_at is 'When it was last seen; to about 10 seconds.';
comment on column issues.count is 'As last seen; of a kind that counts nothing, how often it began.';
comment on column issues.facts is 'What its text is made of, its largest value of each hour, and the change before it.';
comment on column issues.resolved_at is 'When it was no longer found; null: it holds. An issue that returns within an hour continues.';
comment on column issues.assignee is 'Who looks after it; null: not assigned.';
comment on column issues.note is 'What is known about it.';
comment on column issues.snoozed_until is 'It does not count as open until then; null: not snoozed.';
create unique index issues_current on issues (kind, subject_id, part) where resolved_at is null;
comment on index issues_current is 'An issue holds once, whichever machine notices it.';
create index issues_resolved on issues (resolved_at);
comment on index issues_resolved is 'For outages of a time span, for issues that continue, and for maintenance.';

---------------------------------------------------------------------------------------------------------------------------------------
-- Alerts: issues that were reported, and the requests that report them to ALERT_URL

--   begins (over its threshold) ---> active ---> calm for long enough ---> ended
--   each of the two ends makes one request: pending ---> sent
--                                             +--------> failed   (no attempts left, or too old)
create table alerts (
  id uuid primary key,
  condition text not null check (condition in ('pending', 'dead_letters', 'rejections', 'silent', 'spool', 'cell', 'disk')),
  subject_id text not null,
  subject_name text not null,
  since timestamptz not null,
  began_at timestamptz not null,
  value double precision not null,
  threshold double precision,
  checked_at timestamptz not null,
  calm_since timestamptz,
  ended_at timestamptz,
  undelivered integer
);
comment on table alerts is 'Conditions that need a person. Each row begins and ends once; kept for RETENTION_DAYS after its end.';
comment on column alerts.id is 'UUIDv7 of began_at.';
comment on column alerts.condition is 'What is wrong. Units of value and threshold are in model/alerts.ts.';
comment on column alerts.subject_id is 'Id of the agent or webhook; for the spool: name of the folder of the machine.';
comment on column alerts.subject_name is 'Its name when the alert began.';
comment on column alerts.since is 'Since when the condition has held, which is before Weir noticed it.';
comment on column alerts.began_at is 'When Weir noticed it.';
comment on column alerts.value is 'The value that was last over the end of the condition.';
comment on column alerts.threshold is 'The value above which it began; null: any.';
comment on column alerts.checked_at is 'When it was last found to hold.';
comment on column alerts.calm_since is 'Since when it no longer holds; null: it does. It ends when that has lasted.';
comment on column alerts.ended_at is 'When it ended; null: it is active.';
comment on column alerts.undelivered is 'Unfinished deliveries of its agent when it ended, if the agent was revoked; null: it was not. Counted once: deliveries may be away.';
create unique index alerts_active on alerts (condition, subject_id) where ended_at is null;
comment on index alerts_active is 'A condition of a subject is active once, whichever machine notices it.';
create index alerts_ended_at on alerts (ended_at);
comment on index alerts_ended_at is 'For maintenance, which deletes old alerts.';

create table alert_requests (
  id uuid primary key,
  number bigint not null generated always as identity,
  alert_id uuid not null references alerts on delete cascade,
  type text not null check (type in ('alert.began', 'alert.ended')),
  body text not null,
  created_at timestamptz not null,
  state text not null default 'pending' check (state in ('pending', 'sent', 'failed')),
  attempts integer not null default 0,
  next_attempt_at timestamptz not null,
  last_attempt_at timestamptz,
  last_status integer,
  last_error text,
  unique (alert_id, type)
);
comment on table alert_requests is 'Requests to ALERT_URL. They are sent in the order of their numbers for each condition and subject.';
comment on column alert_requests.id is 'Its webhook-id, the same at each attempt.';
comment on column alert_requests.number is 'Order of creation.';
comment on sequence alert_requests_number_seq is 'Numbers of alert_requests.';
comment on column alert_requests.alert_id is 'Its alert.';
comment on column alert_requests.type is 'The beginning or the end of the alert.';
comment on column alert_requests.body is 'The JSON text that is signed and sent.';
comment on column alert_requests.created_at is 'When it was created. A request that is too old is given up.';
comment on column alert_requests.state is 'failed: given up.';
comment on column alert_requests.attempts is 'Attempts begun. A result counts only for the latest one.';
comment on column alert_requests.next_attempt_at is
  'When the next attempt may begin. An attempt moves it past its own longest duration first, so one machine at a time sends it.';
comment on column alert_requests.last_attempt_at is 'When the latest attempt began; null: none yet.';
comment on column alert_requests.last_status is 'Status of the latest response; null: there was none.';
comment on column alert_requests.last_error is 'Why the latest attempt failed; null: it did not.';
create index alert_requests_pending on alert_requests (next_attempt_at) where state = 'pending';
comment on index alert_requests_pending is 'For the requests that are due.';

---------------------------------------------------------------------------------------------------------------------------------------
-- Users, their sessions and API tokens

create table users (
  id uuid primary key,
  email text not null check (length(email) between 3 and 254),
  name text not null default '' check (length(name) <= 200),
  role text not null check (role in ('viewer', 'operator', 'administrator')),
  password_hash text,
  issuer text,
  subject text,
  disabled_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  signed_in_at timestamptz,
  role_until timestamptz,
  invitation_hash bytea,
  invited_until timestamptz,
  unique (issuer, subject),
  check ((issuer is null) = (subject is null)),
  constraint users_invitation_check check ((invitation_hash is null) = (invited_until is null))
);
comment on table users is 'Users of the pages and the management API.';
comment on column users.id is 'Random.';
comment on column users.email is 'As entered; unique without regard to case.';
comment on column users.name is 'As shown on the pages; may be empty.';
comment on column users.role is 'Each role includes the permissions of the ones before it.';
comment on column users.password_hash is 'argon2id in PHC form; null: the user cannot sign in with a password.';
comment on column users.issuer is 'OpenID Connect provider of a hosted user; null: a local user.';
comment on column users.subject is 'The user at that provider.';
comment on column users.disabled_at is 'When the user was disabled; null: enabled.';
comment on column users.created_at is 'Time of creation.';
comment on column users.updated_at is 'Last change.';
comment on column users.signed_in_at is 'Last sign-in; null: never.';
comment on column users.role_until is
  'How long the role that the identity provider last stated is valid. API tokens are suspended from then until the next sign-in. Null: Weir manages the role.';
comment on column users.invitation_hash is 'SHA-256 of the token of the invitation link; null: no link was made, or it was used or revoked.';
comment on column users.invited_until is 'Until when the invitation link is valid.';
create unique index users_email on users (lower(email));
comment on index users_email is 'Two users cannot have addresses that differ in case only.';

create table sessions (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  token_hash bytea not null unique check (length(token_hash) = 32),
  created_at timestamptz not null default now(),
  last_seen_at timestamptz not null default now(),
  expires_at timestamptz not null,
  source_ip inet not null,
  user_agent text not null default '' check (length(user_agent) <= 500),
  authenticated_at timestamptz not null default now()
);
comment on table sessions is 'Signed-in browsers. The cookie contains 256 random bits, the row their SHA-256.';
comment on column sessions.id is 'Random; names the session on the page Account.';
comment on column sessions.user_id is 'Its user.';
comment on column sessions.token_hash is 'SHA-256 of the cookie.';
comment on column sessions.created_at is 'Time of the sign-in.';
comment on column sessions.last_seen_at is 'Last request, written at intervals.';
comment on column sessions.expires_at is 'End of the session, extended within limits by signing in again. An unused session ends earlier.';
comment on column sessions.source_ip is 'Client address of the sign-in.';
comment on column sessions.user_agent is 'Browser, as it names itself.';
comment on column sessions.authenticated_at is
  'When the user last entered the password or signed in at the identity provider. Changes of users require this to be recent.';
create index sessions_of_user on sessions (user_id);
comment on index sessions_of_user is 'For the list of sessions of a user, and for ending them all.';
create index sessions_expiry on sessions (expires_at);
comment on index sessions_expiry is 'For maintenance, which deletes expired sessions.';

create table api_tokens (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  name text not null check (length(name) between 1 and 200),
  role text not null check (role in ('viewer', 'operator', 'administrator')),
  lookup_id text not null unique check (lookup_id ~ '^[0-9A-Za-z]{12}$'),
  secret_hash bytea not null check (length(secret_hash) = 32),
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz,
  made_by uuid references api_tokens (id) on delete cascade
);
comment on table api_tokens is 'Tokens of users for the API.';
comment on column api_tokens.id is 'Random.';
comment on column api_tokens.user_id is 'Its user, by whom it acts.';
comment on column api_tokens.name is 'For users.';
comment on column api_tokens.role is 'Upper limit: the token has this role or that of its user, whichever is less.';
comment on column api_tokens.lookup_id is 'First part of the token wu_<lookup_id>_<secret>, by which its row is found.';
comment on column api_tokens.secret_hash is 'SHA-256 of the secret part of the token.';
comment on column api_tokens.created_at is 'Time of creation.';
comment on column api_tokens.expires_at is 'Null: does not expire.';
comment on column api_tokens.last_used_at is 'To the minute: written when the previous value is older than that.';
comment on column api_tokens.revoked_at is 'When it was revoked; null: valid.';
comment on column api_tokens.made_by is
  'The token whose request created this one, which is no stronger, lasts no longer and is revoked with it. Null: created by a user on the pages or by a command.';
create index api_tokens_of_user on api_tokens (user_id);
comment on index api_tokens_of_user is 'For the list of tokens of a user.';
create index api_tokens_newest on api_tokens (created_at, id);
comment on index api_tokens_newest is 'For the list.';
create index api_tokens_made_by on api_tokens (made_by) where made_by is not null;
comment on index api_tokens_made_by is 'For revoking a token together with those that it created.';

create function announce_user() returns trigger language plpgsql as $$
declare
  changed jsonb := case when tg_op = 'DELETE' then to_jsonb(old) else to_jsonb(new) end;
begin
  perform pg_notify('weir_changes', 'user:' || (changed ->> tg_argv[0]));
  return null;
end
$$;
comment on function announce_user is
  'Announces to every process that a user, or what a session or token of the user may do, changed. Argument: the column that contains the user id.';
create trigger users_announce after update or delete on users for each row execute function announce_user('id');
comment on trigger users_announce on users is 'Processes cache existing users only: an insert changes nothing.';
create trigger sessions_announce after delete on sessions for each row execute function announce_user('user_id');
comment on trigger sessions_announce on sessions is 'An ended session closes its streams.';
create trigger api_tokens_announce after update of revoked_at, role, expires_at or delete on api_tokens
  for each row execute function announce_user('user_id');
comment on trigger api_tokens_announce on api_tokens is 'All columns that limit the token.';

---------------------------------------------------------------------------------------------------------------------------------------
-- OAuth for /mcp: clients that registered themselves, and what people let clients do. A grant is a row of api_tokens with a row here: it is
-- listed and revoked as an API token. As the secret_hash of api_tokens is random for it, it opens /mcp alone.

create table oauth_clients (
  id uuid primary key,
  name text not null check (length(name) between 1 and 200),
  redirect_uris text[] not null check (cardinality(redirect_uris) between 1 and 10),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
comment on table oauth_clients is
  'Clients by dynamic registration (RFC 7591). Those with a client id metadata document have no row.';
comment on column oauth_clients.id is 'The client id, random.';
comment on column oauth_clients.name is 'As the client names itself.';
comment on column oauth_clients.redirect_uris is 'Where a person may be sent with a code.';
comment on column oauth_clients.created_at is 'Time of the registration.';
comment on column oauth_clients.expires_at is 'A day after the registration; with a grant, 90 days after its last tokens.';
create index oauth_clients_expiry on oauth_clients (expires_at);
comment on index oauth_clients_expiry is 'For maintenance, and for the client that a new one replaces.';

create table oauth_grants (
  token_id uuid primary key references api_tokens (id) on delete cascade,
  client_id text not null check (length(client_id) <= 500),
  agent_id uuid references agents (id) on delete cascade,
  resource text not null,
  redirect_uri text not null,
  code_hash bytea not null check (length(code_hash) = 32),
  code_challenge text not null check (length(code_challenge) = 43),
  code_used_at timestamptz,
  access_hash bytea check (length(access_hash) = 32),
  access_expires_at timestamptz,
  refresh_hash bytea check (length(refresh_hash) = 32),
  constraint oauth_grants_issued_check
    check (num_nulls(code_used_at, access_hash, access_expires_at, refresh_hash) in (0, 4))
);
comment on table oauth_grants is 'What a person lets a client do at /mcp, with the code and the tokens that the client got for it.';
comment on column oauth_grants.token_id is 'Row of api_tokens with the person, the role that the person must have, and the end of the grant.';
comment on column oauth_grants.client_id is 'Row of oauth_clients, or the address of a client id metadata document.';
comment on column oauth_grants.agent_id is 'The client acts as this agent; null: as the person, with the role of the token.';
comment on column oauth_grants.resource is 'What the tokens are for (RFC 8707): the address of /mcp at the time of the grant.';
comment on column oauth_grants.redirect_uri is 'Where the code was sent. The exchange of the code must state the same.';
comment on column oauth_grants.code_hash is 'SHA-256 of the secret part of the authorization code.';
comment on column oauth_grants.code_challenge is 'PKCE: SHA-256 of the verifier, in base64url.';
comment on column oauth_grants.code_used_at is 'When the code was exchanged; null: not yet.';
comment on column oauth_grants.access_hash is 'SHA-256 of the secret part of the current access token.';
comment on column oauth_grants.access_expires_at is 'End of the current access token.';
comment on column oauth_grants.refresh_hash is 'SHA-256 of the secret part of the only refresh token that is not used yet.';
create index oauth_grants_agent on oauth_grants (agent_id) where agent_id is not null;
comment on index oauth_grants_agent is 'For the clients that act as an agent.';

---------------------------------------------------------------------------------------------------------------------------------------
-- Failed sign-ins

create table sign_in_failures (
  key text primary key,
  failures integer not null check (failures > 0),
  last_failure_at timestamptz not null default now()
);
comment on table sign_in_failures is 'Failed sign-ins, counted for all processes. Each count decays with time.';
comment on column sign_in_failures.key is 'account:<SHA-256 of the address>, ip:<address or /64>, or device:<nonce of the device cookie>.';
comment on column sign_in_failures.failures is 'Failures in a row; for an address, the level of a leaky bucket.';
comment on column sign_in_failures.last_failure_at is 'Time of the last failure, or up to when the bucket has leaked.';

create table sign_in_tallies (
  key text primary key,
  target json not null,
  failures integer not null default 1 check (failures > 0),
  started_at timestamptz not null default now()
);
comment on table sign_in_tallies is
  'Failed sign-ins of the last hour by account. Maintenance records the counts in the audit log and deletes them, so that the log grows by a limited number of entries.';
comment on column sign_in_tallies.key is 'account:<SHA-256 of its name>, or others once the limit on tallies is reached.';
comment on column sign_in_tallies.target is 'The account of the attempts, as the audit log names it.';
comment on column sign_in_tallies.failures is 'Failures since started_at.';
comment on column sign_in_tallies.started_at is 'First failure of the hour.';

---------------------------------------------------------------------------------------------------------------------------------------
-- Repeated requests, audit log, keys

create table idempotency_keys (
  user_id uuid not null references users (id) on delete cascade,
  key text not null check (length(key) between 1 and 255),
  fingerprint bytea not null check (length(fingerprint) = 32),
  attempt uuid not null,
  held_until timestamptz not null,
  changed_at timestamptz,
  answer bytea,
  expires_at timestamptz not null,
  primary key (user_id, key)
);
comment on table idempotency_keys is 'Requests with an Idempotency-Key, and their answers.';
comment on column idempotency_keys.user_id is 'The user: keys of different users are independent.';
comment on column idempotency_keys.key is 'Value of the header.';
comment on column idempotency_keys.fingerprint is
  'HMAC-SHA256 of the request. From a plain digest, the content of a request (for example a password) could be guessed.';
comment on column idempotency_keys.attempt is 'The attempt that holds the key.';
comment on column idempotency_keys.held_until is 'From then on another attempt may take the key over.';
comment on column idempotency_keys.changed_at is 'When the change was committed, in the same transaction; the answer follows. Null: not yet.';
comment on column idempotency_keys.answer is 'Status, headers and body, sealed because it may show a secret. Null: not answered yet.';
comment on column idempotency_keys.expires_at is 'From then on the key is free.';
create index idempotency_keys_expiry on idempotency_keys (expires_at);
comment on index idempotency_keys_expiry is 'For maintenance, which deletes expired keys.';

-- The columns are generated from the hashed text, so that they cannot disagree with it.
create table audit_log (
  number bigint primary key check (number > 0),
  entry json not null,
  hash bytea not null check (length(hash) = 32),
  previous_hash bytea not null check (length(previous_hash) = 32),
  action text generated always as (entry ->> 'action') stored,
  actor_id text generated always as (entry -> 'actor' ->> 'id') stored,
  target_id text generated always as (entry -> 'target' ->> 'id') stored,
  at text collate "C" generated always as (entry ->> 'at') stored
);
comment on table audit_log is 'Who changed what, from where and when. Append-only; the hash of each entry covers all entries before it.';
comment on column audit_log.number is 'Consecutive, from 1.';
comment on column audit_log.entry is 'The JSON text that was hashed. Type json, not jsonb: the text must stay as it is.';
comment on column audit_log.hash is 'SHA-256 of previous_hash and the text of entry in UTF-8.';
comment on column audit_log.previous_hash is 'Hash of the entry before it.';
comment on column audit_log.action is 'From entry.';
comment on column audit_log.actor_id is 'From entry.';
comment on column audit_log.target_id is 'From entry.';
comment on column audit_log.at is
  'From entry: the time by the clock of the process that wrote it, ISO 8601 in UTC, always 24 characters. In collation C its order is that of time.';
create index audit_log_of_actor on audit_log (actor_id, number);
comment on index audit_log_of_actor is 'For the entries of one actor.';
create index audit_log_of_target on audit_log (target_id, number);
comment on index audit_log_of_target is 'For the entries about one target.';
create index audit_log_at on audit_log (at, number);
comment on index audit_log_at is 'For the entries of a time range.';
create index audit_log_action on audit_log (action collate "C", number);
comment on index audit_log_action is 'For the entries of one action, or of all actions with a prefix.';

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is append-only', tg_table_name using errcode = 'restrict_violation';
end
$$;
comment on function refuse_change is 'Rejects every statement that would change existing rows.';
create trigger audit_log_append_only before update or delete or truncate on audit_log
  for each statement execute function refuse_change();
comment on trigger audit_log_append_only on audit_log is 'Weir itself cannot change an entry; the hashes show what an owner of the table changed.';

create table secrets_keys (
  fingerprint bytea primary key check (length(fingerprint) = 16),
  first_used_at timestamptz,
  replaced_at timestamptz
);
comment on table secrets_keys is
  'Fingerprints of the keys that SECRETS_KEY has been; the keys themselves are never stored. A session signed by a replaced key is accepted for a short time after the replacement.';
comment on column secrets_keys.fingerprint is 'Derived from the key by HKDF with a purpose of its own: it reveals nothing about the key or the keys derived for other purposes.';
comment on column secrets_keys.first_used_at is
  'When the key was first SECRETS_KEY; null: at the first start that recorded keys it was SECRETS_KEY_PREVIOUS.';
comment on column secrets_keys.replaced_at is 'When another key replaced it, at a start of Weir or by weir keys rotate; null: in use.';

---------------------------------------------------------------------------------------------------------------------------------------
-- Cells: other Postgres servers that hold the events, deliveries and dedupe keys of some webhooks. Everything else is at home, in this
-- database. A cell has this schema too; of the configuration it has copies of the rows that its statements join, without secrets.

create table cells (
  number smallint primary key check (number between 1 and 4095),
  id uuid not null unique default gen_random_uuid(),
  name text not null unique check (length(name) between 1 and 200),
  sealed bytea not null,
  state text not null check (state in ('adding', 'active', 'draining')),
  mark bigint not null default 0,
  created_at timestamptz not null default now()
);
comment on table cells is 'Postgres servers beside this one. Empty: all events are in this database.';
comment on column cells.number is 'In the ids of its events, in the 12 bits after the version.';
comment on column cells.id is 'Random; the sealed connection string is bound to it.';
comment on column cells.name is 'For users.';
comment on column cells.sealed is 'Connection string, sealed.';
comment on column cells.state is 'adding: not used before its copies are complete; active; draining: gets no new webhooks.';
comment on column cells.mark is 'The last mark that was written to the cell: a cell with a lower one was restored from a backup.';
comment on column cells.created_at is 'Events received before are not in it.';

create table cell_self (
  one boolean primary key default true check (one),
  installation uuid not null,
  number smallint not null,
  mark bigint not null default 0
);
comment on table cell_self is 'What this database is: the home of an installation, or one of its cells. Empty: a home without cells.';
comment on column cell_self.one is 'There is one row.';
comment on column cell_self.installation is 'Random id of the installation.';
comment on column cell_self.number is '0: home.';
comment on column cell_self.mark is 'Rises every few seconds, and is noted at home too.';

create table cell_copies (
  cell smallint not null references cells (number) on delete cascade,
  kind text not null check (kind in ('webhook', 'agent')),
  id uuid not null,
  version bigint not null default 1,
  since timestamptz not null default now(),
  primary key (cell, kind, id)
);
comment on table cell_copies is 'Configuration that a cell does not have yet. A row goes when it was copied.';
comment on column cell_copies.cell is 'The cell.';
comment on column cell_copies.kind is 'A webhook, or an agent with its subscriptions and replay targets.';
comment on column cell_copies.id is 'Which one.';
comment on column cell_copies.version is 'Rises with each change, so that a change during the copy is copied too.';
comment on column cell_copies.since is 'When the first of these changes was made.';

create function note_cell_copy() returns trigger language plpgsql as $$
declare
  changed jsonb := case when tg_op = 'DELETE' then to_jsonb(old) else to_jsonb(new) end;
begin
  insert into cell_copies (cell, kind, id)
  select number, tg_argv[0], (changed ->> tg_argv[1])::uuid from cells
  on conflict (cell, kind, id) do update set version = cell_copies.version + 1;
  return null;
end
$$;
comment on function note_cell_copy is 'Notes for every cell that a webhook or an agent changed. Arguments: the kind, and the column with the id.';

create trigger webhooks_copy after insert or delete or update of name, retention_days, deleted_at, cell, moving_from on webhooks
  for each row execute function note_cell_copy('webhook', 'id');
comment on trigger webhooks_copy on webhooks is 'The columns that statements in a cell join.';
create trigger agents_copy after insert or delete or update of name, generation, max_leased, revoked_at, paused_at on agents
  for each row execute function note_cell_copy('agent', 'id');
comment on trigger agents_copy on agents is 'The columns that statements in a cell join.';
create trigger subscriptions_copy after insert or delete or update of filter, filter_slow, filter_slow_at, order_id on subscriptions
  for each row execute function note_cell_copy('agent', 'agent_id');
comment on trigger subscriptions_copy on subscriptions is 'A subscription is copied with its agent.';
create trigger replay_targets_copy after insert or delete or update of filter, filter_slow, filter_slow_at on replay_targets
  for each row execute function note_cell_copy('agent', 'agent_id');
comment on trigger replay_targets_copy on replay_targets is 'A replay target is copied with its agent.';

create function announce_cell() returns trigger language plpgsql as $$
begin
  perform pg_notify('weir_changes', 'cell:all');
  return null;
end
$$;
comment on function announce_cell is 'Announces to every process that the cells changed: it reads all of them.';
create trigger cells_announce after insert or delete or update of name, sealed, state on cells
  for each row execute function announce_cell();
comment on trigger cells_announce on cells is 'All columns except the mark.';
