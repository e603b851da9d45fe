-- Retention of a webhook keeps undelivered events for KEEP_UNDELIVERED_DAYS longer, so its progress has two places.

alter table webhooks add column undelivered_removed_before timestamptz;
comment on column webhooks.undelivered_removed_before is
  'Undelivered events received before this time were removed by retention_days and KEEP_UNDELIVERED_DAYS; null: none yet.';
update webhooks set undelivered_removed_before = events_removed_before where events_removed_before is not null;
