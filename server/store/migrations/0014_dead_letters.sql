-- The index of dead letters has all that their groups and counts read.
--
-- Compatible from: 13

-- A backup that reads these tables has to end before the old index is dropped. It is waited for before the build, which then need not be repeated.
savepoint unbuilt;
lock table deliveries_finished in access exclusive mode;
rollback to unbuilt;

-- The index of each day, the last day at the end: what finishes a delivery waits for the index of its day alone. Entries are written only when
-- a delivery dies.
do $$
declare
  day regclass;
begin
  for day in select relid from pg_partition_tree('deliveries_finished') where isleaf and level > 0 order by relid::regclass::text loop
    execute format(
      'create index on %s (received_at, id) include (agent_id, webhook_id, reason, finished_at) where state = ''dead''', day);
  end loop;
end
$$;
-- It takes the indexes of the days.
create index deliveries_dead_covering on deliveries_finished (received_at, id) include (agent_id, webhook_id, reason, finished_at)
  where state = 'dead';
drop index deliveries_dead;
alter index deliveries_dead_covering rename to deliveries_dead;
comment on index deliveries_dead is
  'Dead letters are few among millions: counting, grouping or listing them must not scan all deliveries. What groups and counts read is in it: each dead letter is in a block of its own.';
