-- A limit on the deliveries that an agent has under lease at a time.

alter table agents add column max_leased integer check (max_leased between 1 and 10000);
comment on column agents.max_leased is 'Deliveries under lease at a time; null: no limit. Counted by claims, see claim-room.ts.';

create or replace trigger agents_announce
  after insert or delete or update of name, lookup_id, secret_hash, generation, revoked_at, max_leased on agents
  for each row execute function announce_agent();
