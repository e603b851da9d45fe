-- The previous credential of an agent, which may stay valid beside the new one. Code that does not know the columns refuses it.
--
-- Compatible from: 42

alter table agents
  add column previous_lookup_id text check (previous_lookup_id ~ '^[0-9A-Za-z]{12}$'),
  add column previous_secret_hash bytea check (length(previous_secret_hash) = 32),
  add column previous_generation integer,
  add column previous_expires_at timestamptz,
  add column previous_used_at timestamptz,
  add constraint agents_previous_check
    check (num_nulls(previous_lookup_id, previous_secret_hash, previous_generation, previous_expires_at) in (0, 4));
comment on column agents.previous_lookup_id is 'lookup_id before the last rotation, if that has an overlap.';
comment on column agents.previous_secret_hash is 'secret_hash before the last rotation, if that has an overlap.';
comment on column agents.previous_generation is
  'generation before the last rotation. The previous credential and its sessions are valid only while this is one less than generation: a later rotation or a revocation ends them, also one by code that does not know these columns.';
comment on column agents.previous_expires_at is 'End of the overlap: the previous credential and its sessions are valid until then.';
comment on column agents.previous_used_at is 'The last request with the previous credential or a session of it, to the minute; null: none since the rotation.';
create unique index agents_previous on agents (previous_lookup_id) where previous_lookup_id is not null;
comment on index agents_previous is 'By which the row of a previous credential is found. Most agents have none.';
