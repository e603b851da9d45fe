-- Cells: other Postgres servers that hold the events, deliveries and dedupe keys of some webhooks. Everything else is at home, in this
-- database. A cell has this schema too; of the configuration it has copies of the rows that its statements join, without secrets.
--
-- Without a cell nothing changes, and a release that does not know cells serves this schema. `weir cell add` removes the statement below.
--
-- Compatible from: 42

alter table webhooks
  add column cell smallint not null default 0 check (cell between 0 and 4095),
  add column moving_from smallint,
  add column moving_since timestamptz;
comment on column webhooks.cell is 'Where its new events are stored: a cell, or 0 for home. Older events stay where they were stored.';
comment on column webhooks.moving_from is 'The cell that it leaves: until its deduplication keys have followed, no event with a key is stored. Null: it does not move.';
comment on column webhooks.moving_since is 'When the copy of its keys began; null: it does not move.';
create index webhooks_moving on webhooks (id) where moving_from is not null;
comment on index webhooks_moving is 'For the primary, which ends a move that was interrupted.';

drop trigger webhooks_announce on webhooks;
create trigger webhooks_announce
  after insert or delete
    or update of name, description, enabled, signature_header, dedupe_header, max_payload_bytes, rate_limit_max, retention_days,
      signature_scheme, scheme_definition, tolerance_seconds, public_key, verify_token, event_type_from, updated_at, deleted_at, cell, moving_from
  on webhooks for each row execute function announce_webhook('id');
comment on trigger webhooks_announce on webhooks is 'All columns except last_event_at and events_removed_before.';

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
create trigger agents_copy after insert or delete or update of name, generation, max_leased, revoked_at on agents
  for each row execute function note_cell_copy('agent', 'id');
comment on trigger agents_copy on agents is 'The columns that statements in a cell join.';
create trigger subscriptions_copy after insert or delete or update of filter, filter_slow, filter_slow_at on subscriptions
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

alter table alerts drop constraint alerts_condition_check;
alter table alerts add constraint alerts_condition_check
  check (condition in ('pending', 'dead_letters', 'rejections', 'silent', 'spool', 'cell')) not valid;
alter table alerts validate constraint alerts_condition_check;

create table job_progress (
  job_id uuid primary key,
  upto uuid not null
);
comment on table job_progress is 'How far a replay job is in this database. It is committed with the deliveries, the cursor of the job only at home.';
comment on column job_progress.job_id is 'The job; its row is at home.';
comment on column job_progress.upto is 'The last event that was replayed.';
