-- People: who they are, how they are signed in, what they did. A change is announced on channel weir_changes as 'user:<id>'.

create table users (
  id uuid primary key,
  email text not null check (length(email) between 3 and 254),
  name text not null default '' check (length(name) <= 200),
  role text not null check (role in ('viewer', 'operator', 'administrator')),
  -- argon2id in PHC form; null: never signs in with a password.
  password_hash text,
  -- The person at the OpenID Connect provider.
  issuer text,
  subject text,
  disabled_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  signed_in_at timestamptz,
  unique (issuer, subject),
  check ((issuer is null) = (subject is null))
);
create unique index users_email on users (lower(email));
comment on table users is 'People on the pages and the management API.';

create table sessions (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  token_hash bytea not null unique check (length(token_hash) = 32),
  created_at timestamptz not null default now(),
  last_seen_at timestamptz not null default now(),
  expires_at timestamptz not null,
  source_ip inet not null,
  user_agent text not null default '' check (length(user_agent) <= 500)
);
create index sessions_of_user on sessions (user_id);
create index sessions_expiry on sessions (expires_at);
comment on table sessions is 'Browsers that are signed in; the cookie holds 256 random bits, the row their SHA-256.';

create table api_tokens (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  name text not null check (length(name) between 1 and 200),
  -- At most this; the role of its user may be less.
  role text not null check (role in ('viewer', 'operator', 'administrator')),
  lookup_id text not null unique check (lookup_id ~ '^[0-9A-Za-z]{12}$'),
  secret_hash bytea not null check (length(secret_hash) = 32),
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz
);
create index api_tokens_of_user on api_tokens (user_id);
comment on table api_tokens is 'Tokens wu_<lookup_id>_..., each a user''s own, with that user''s role or less.';
comment on column api_tokens.last_used_at is 'To the minute: written when the one before is older than that.';

create table sign_in_failures (
  -- 'account:<sha256 of the address>' or 'ip:<address or /64>'.
  key text primary key,
  failures integer not null check (failures > 0),
  last_failure_at timestamptz not null default now()
);
comment on table sign_in_failures is 'Failed sign-ins in a row, counted for all processes; forgotten after a while.';

create function announce_user() returns trigger language plpgsql as $$
declare
  changed jsonb := case when tg_op = 'DELETE' then to_jsonb(old) else to_jsonb(new) end;
begin
  perform pg_notify('weir_changes', 'user:' || (changed ->> tg_argv[0]));
  return null;
end
$$;
comment on function announce_user is 'Tells every process that a user changed, or what a session or token of it may do.';
create trigger users_announce after update or delete on users for each row execute function announce_user('id');
create trigger sessions_announce after delete on sessions for each row execute function announce_user('user_id');
create trigger api_tokens_announce after update of revoked_at, role, expires_at or delete on api_tokens
  for each row execute function announce_user('user_id');

-- Each entry is the JSON text that was hashed; the columns beside it are read from it, so that they cannot disagree.
create table audit_log (
  number bigint primary key check (number > 0),
  entry json not null,
  -- SHA-256 of previous_hash and the entry's text in UTF-8.
  hash bytea not null check (length(hash) = 32),
  previous_hash bytea not null check (length(previous_hash) = 32),
  action text generated always as (entry ->> 'action') stored,
  actor_id text generated always as (entry -> 'actor' ->> 'id') stored,
  target_id text generated always as (entry -> 'target' ->> 'id') stored
);
create index audit_log_of_actor on audit_log (actor_id, number);
create index audit_log_of_target on audit_log (target_id, number);
comment on table audit_log is 'Who did what, from where, when; append-only, each entry sealed by the hash of all before it.';

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is append-only', tg_table_name using errcode = 'restrict_violation';
end
$$;
create trigger audit_log_append_only before update or delete or truncate on audit_log
  for each statement execute function refuse_change();
