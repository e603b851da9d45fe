-- How far the retention of a webhook itself was enforced, so that maintenance reads each expired event once.

alter table webhooks add column events_removed_before timestamptz;
comment on column webhooks.events_removed_before is
  'Its events received before this time were removed by its own retention_days. Null: none yet.';
