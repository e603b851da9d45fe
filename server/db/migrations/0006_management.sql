-- What managing webhooks, agents and deliveries needs besides their tables.

-- Dead deliveries are few, and are counted and replayed by agent; an entry is written when one dies, and goes when it is replayed.
create index deliveries_dead_of_agent on deliveries (agent_id, webhook_id, received_at, id) where state = 'dead';

-- Uses of each secret: whether the one before is still needed.
alter table webhook_secrets
  add column id uuid not null unique default gen_random_uuid(),
  add column uses bigint not null default 0 check (uses >= 0),
  add column last_used_at timestamptz;
comment on column webhook_secrets.uses is 'Requests that it verified; written every few seconds, for all of them together.';

-- Uses change nothing that a process must know of.
drop trigger webhook_secrets_announce on webhook_secrets;
create trigger webhook_secrets_announce after insert or delete or update of slot, sealed, expires_at on webhook_secrets
  for each row execute function announce_webhook('webhook_id');

create table idempotency_keys (
  user_id uuid not null references users (id) on delete cascade,
  key text not null check (length(key) between 1 and 255),
  -- HMAC-SHA256 of the request: a digest alone could be tried out on what a request holds, e.g. a password.
  fingerprint bytea not null check (length(fingerprint) = 32),
  -- Of the attempt that holds the key.
  attempt uuid not null,
  held_until timestamptz not null,
  -- The change is committed, in its own transaction; the answer follows.
  changed_at timestamptz,
  -- Status, headers and body, AES-256-GCM: it may show a secret.
  answer bytea,
  expires_at timestamptz not null,
  primary key (user_id, key)
);
create index idempotency_keys_expiry on idempotency_keys (expires_at);
comment on table idempotency_keys is 'Requests that carried an Idempotency-Key, and what they were answered.';
