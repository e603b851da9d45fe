-- When and from where each agent was seen last.

alter table agents add column last_seen_at timestamptz, add column last_seen_from inet;
comment on column agents.last_seen_at is 'Last request that was its own, to the minute; null: none yet.';
comment on column agents.last_seen_from is 'Client address of that request.';

-- To be seen changes nothing that a process must know of.
drop trigger agents_announce on agents;
create trigger agents_announce after insert or delete or update of name, lookup_id, secret_hash, generation, revoked_at on agents
  for each row execute function announce_agent();
