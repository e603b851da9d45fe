-- Webhooks and their secrets. A change is announced on channel weir_changes as 'webhook:<id>', whoever makes it.

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
  deleted_at timestamptz
);
comment on table webhooks is 'Configured endpoints; deleting is soft, so that events keep their webhook.';
comment on column webhooks.signature_header is 'Lower case; when set, only this header carries the signature.';
comment on column webhooks.rate_limit_max is 'Requests a window and client IP, counted for this webhook alone; null: the common limit.';

create table webhook_secrets (
  webhook_id uuid not null references webhooks (id) on delete cascade,
  slot text not null check (slot in ('current', 'previous')),
  sealed bytea not null,
  expires_at timestamptz,
  created_at timestamptz not null default now(),
  primary key (webhook_id, slot),
  check ((slot = 'previous') = (expires_at is not null))
);
comment on table webhook_secrets is 'Secrets, AES-256-GCM under SECRETS_KEY; the previous one verifies until it expires.';

create function announce_webhook() returns trigger language plpgsql as $$
declare
  changed jsonb := case when tg_op = 'DELETE' then to_jsonb(old) else to_jsonb(new) end;
begin
  perform pg_notify('weir_changes', 'webhook:' || (changed ->> tg_argv[0]));
  return null;
end
$$;
comment on function announce_webhook is 'Tells every process that a webhook changed; its argument names the column with the id.';

create trigger webhooks_announce after insert or update or delete on webhooks
  for each row execute function announce_webhook('id');
create trigger webhook_secrets_announce after insert or update or delete on webhook_secrets
  for each row execute function announce_webhook('webhook_id');
