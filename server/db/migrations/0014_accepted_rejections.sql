-- A refused request that verifies by now can be stored as the event that it would have been.

alter table rejections
  add column batch boolean not null default false,
  add column dedupe_key bytea check (length(dedupe_key) = 32),
  add column accepted_event_id uuid;
comment on column rejections.batch is 'It was sent to /in/{webhook_id}/batch: each of its lines would have been an event.';
comment on column rejections.dedupe_key is 'As in dedupe_keys; the header that it was made of may be one that is not kept.';
comment on column rejections.accepted_event_id is 'The event that it was stored as, or that was there already under its dedupe_key.';
