-- When a webhook was enabled after it had been disabled: its silence is counted from then. Nullable without a default, so that the table
-- is not rewritten and code that does not know the column continues to work.

alter table webhooks add column enabled_at timestamptz;
comment on column webhooks.enabled_at is 'When it was enabled again; null: never since migration 39. While it was disabled no event was expected.';
