-- When each webhook last stored an event: nothing but time finds events, so to look for the last of each would walk through them.

alter table webhooks add column last_event_at timestamptz;
comment on column webhooks.last_event_at is 'When its last event was received; written every few seconds. Null: none yet.';

-- An event that arrives changes nothing that a process must know of.
drop trigger webhooks_announce on webhooks;
create trigger webhooks_announce
  after insert or delete
    or update of name, description, enabled, signature_header, dedupe_header, max_payload_bytes, rate_limit_max, retention_days,
      updated_at, deleted_at
  on webhooks for each row execute function announce_webhook('id');

-- Of the newest day alone: nobody waits for a walk through all that is stored.
update webhooks w set last_event_at = last.received_at
from (
  select webhook_id, max(received_at) as received_at from events where received_at > now() - interval '1 day' group by webhook_id
) last
where last.webhook_id = w.id;
