-- Stored requests: insert-only, a partition for each day (UTC) of received_at, made ahead by the primary.
-- received_at is the millisecond inside the UUIDv7, so that an id alone finds its partition.
-- No foreign key to webhooks: it would forbid detaching partitions and put a read on the hot path.

create table events (
  id uuid not null,
  webhook_id uuid not null,
  received_at timestamptz not null,
  source_ip inet not null,
  headers bytea not null,
  content_type text,
  body bytea not null,
  bytes integer not null check (bytes >= 0),
  -- webhook_id is in the key for databases that distribute rows by it.
  primary key (received_at, id, webhook_id)
) partition by range (received_at);
comment on table events is 'Requests that were answered 202; the row was committed before the answer.';
comment on column events.headers is 'Field lines "name: value" in UTF-8, joined by line feeds, without credentials and signatures.';
comment on column events.body is 'The request body, unchanged.';

-- Bodies are mostly unlike each other and often compressed already: do not try on the way in.
alter table events alter column body set storage external;
