-- The index of dead letters has all that their groups and counts read.
--
-- Compatible from: 13

-- The new one first: while it is built, deliveries can be read. Entries are written only when a delivery dies.
create index deliveries_dead_covering on deliveries_finished (received_at, id) include (agent_id, webhook_id, reason, finished_at)
  where state = 'dead';
drop index deliveries_dead;
alter index deliveries_dead_covering rename to deliveries_dead;
comment on index deliveries_dead is
  'Dead letters are few among millions: counting, grouping or listing them must not scan all deliveries. What groups and counts read is in it: each dead letter is in a block of its own.';
