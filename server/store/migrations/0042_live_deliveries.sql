-- Deliveries that are pending or leased live in one small table, apart from those that are finished: a claim reads one table however
-- many days are kept, and the update that finishes a delivery moves its row into the partition of its day.
--
--     deliveries (partitioned by state)
--       deliveries_live        pending, leased
--       deliveries_finished    done, dead, dismissed, filtered: a partition a day
--
-- Postgres moves a row when an update changes the list of its state, also back: a replay. A statement that names the states in its
-- conditions is planned for one of the two. Postgres ends a statement that waited for a row that was moved (40001): pool.ts repeats it.
--
-- CPU of one Postgres 15 backend for a claim with its ack, 38 days, 3,000 pending, medians of 3 rounds in turns, as a ratio to one table a
-- day for all states: 0.36 with max 1, 0.51 with 10, 0.69 with 100.

alter table deliveries rename to deliveries_finished;
alter index deliveries_pkey rename to deliveries_finished_pkey;

create table deliveries (like deliveries_finished including defaults including comments) partition by list (state);
comment on table deliveries is 'One event on its way to one agent. Partitioned by state, see the migration live_deliveries.';
create table deliveries_live (like deliveries_finished including defaults including comments);
comment on table deliveries_live is 'Deliveries that are pending or leased, of all days.';
comment on table deliveries_finished is 'Deliveries that are done, dead, dismissed or filtered, by day.';

-- Half of what claims and acks write is dead a moment later. Vacuum of a table this small is cheap, and a large one would slow each claim.
alter table deliveries_live set (
  autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0.2
);
alter table deliveries_live
  add constraint deliveries_live_attempts_check check (attempts >= 0),
  add constraint deliveries_live_reason_check check (length(reason) <= 500);

with moved as (delete from deliveries_finished where state in ('pending', 'leased') returning *)
insert into deliveries_live select * from moved;
-- Every row that they had is in the live table.
drop index deliveries_claimable;
drop index deliveries_last_lease;

alter table deliveries_live add constraint deliveries_live_pkey primary key (received_at, id, webhook_id);
create index deliveries_claimable on deliveries_live (agent_id, webhook_id, available_at);
comment on index deliveries_claimable is 'For claims, from the oldest delivery on.';
create index deliveries_live_of_agent on deliveries_live (agent_id, received_at, id);
comment on index deliveries_live_of_agent is 'For the list of deliveries of one agent.';
create index deliveries_last_lease on deliveries_live (available_at) where state = 'leased' and last_lease;
comment on index deliveries_last_lease is 'For maintenance, which ends expired last leases. Almost always empty: claims and acks touch it at the last attempt only.';

alter table deliveries attach partition deliveries_live for values in ('pending', 'leased');
alter table deliveries attach partition deliveries_finished for values in ('done', 'dead', 'dismissed', 'filtered');

create or replace function fan_out() returns trigger language plpgsql as $$
begin
  insert into deliveries_live (id, webhook_id, agent_id, event_id, received_at, bytes)
  select delivery_id(arrived.id), arrived.webhook_id, subscriptions.agent_id, arrived.id, arrived.received_at, arrived.bytes
  from arrived
  join subscriptions using (webhook_id)
  join agents on agents.id = subscriptions.agent_id and agents.revoked_at is null;
  return null;
end
$$;
