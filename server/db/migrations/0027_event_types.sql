-- The type of an event, such as invoice.paid: what a person and an agent recognise it by.

alter table webhooks add column event_type_from text check (length(event_type_from) <= 1000);
comment on column webhooks.event_type_from is
  'Where a request has the type of its event, see signatures/event-type.ts; none: the events have no type. Null: as the signature scheme says.';

drop trigger webhooks_announce on webhooks;
create trigger webhooks_announce
  after insert or delete
    or update of name, description, enabled, signature_header, dedupe_header, max_payload_bytes, rate_limit_max, retention_days,
      signature_scheme, scheme_definition, tolerance_seconds, public_key, verify_token, event_type_from, updated_at, deleted_at
  on webhooks for each row execute function announce_webhook('id');
comment on trigger webhooks_announce on webhooks is 'All columns except last_event_at and events_removed_before.';

-- Not a text column with a check: adding that would read all stored events.
alter table events add column event_type varchar(200);
comment on column events.event_type is 'The type of the event, as event_type_from of its webhook said; null: the request had none, or it is older than the column.';
