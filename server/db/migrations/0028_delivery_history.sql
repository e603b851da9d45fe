-- Deliveries keep their history, and dead letters can be dismissed.
--
--          fan out                 claim                 ack
--   event ---------> pending ----------------> leased ---------> done
--                       ^   nack, lease expired   |
--                       +-------------------------+---> dead   (no attempts left) ---> dismissed
--                       replay, from done, dead and dismissed, attempts from zero      (by a user)

-- A first attempt that succeeds is fully described by leased_at, leased_from, available_at and finished_at, which a claim and an ack
-- write anyway: history stays null. Only what ends otherwise is added to it. Figures are in queries/delivery-history.ts.
alter table deliveries
  add column leased_at timestamptz,
  add column leased_from inet,
  add column history jsonb;
comment on column deliveries.leased_at is 'Start of the last lease; null: none yet, or leased by an earlier version.';
comment on column deliveries.leased_from is 'Address of the agent that got the last lease.';
comment on column deliveries.history is
  'Ended leases, replays and dismissals, oldest first, limited in number; see queries/delivery-history.ts. The last lease is added when it ends without an acknowledgement, or at a replay. Null: none.';
comment on column deliveries.reason is 'Why the last attempt that failed did: what the agent stated with its nack, or that the last lease expired.';
comment on column deliveries.finished_at is 'When it became done or dead; null: neither. Not changed by a dismissal.';

-- Not valid: the rows that exist met narrower checks. Checking them again would lock the table for as long as it is read.
alter table deliveries
  drop constraint deliveries_state_check,
  drop constraint deliveries_check,
  add constraint deliveries_state_check check (state in ('pending', 'leased', 'done', 'dead', 'dismissed')) not valid,
  add constraint deliveries_check check ((finished_at is not null) = (state in ('done', 'dead', 'dismissed'))) not valid;

-- On the parent only, so that no partition is read under a lock. New partitions get it, and so do those without rows.
create index deliveries_dismissed on only deliveries (received_at, id) where state = 'dismissed';
comment on index deliveries_dismissed is 'For the list of dismissed deliveries. Days from before version 28 lack it: their lists read all deliveries.';
do $$
declare
  partition regclass;
  used boolean;
begin
  for partition in select inhrelid::regclass from pg_inherits where inhparent = 'deliveries'::regclass and not inhdetachpending loop
    execute format('select exists (select from %s)', partition) into used;
    if not used then
      execute format('create index on %s (received_at, id) where state = ''dismissed''', partition);
      execute format('alter index deliveries_dismissed attach partition %I', (
        select indexrelid::regclass::text from pg_index
        where indrelid = partition and pg_get_expr(indpred, indrelid) like '%dismissed%'));
    end if;
  end loop;
end
$$;

create table delivery_actions (
  id uuid primary key,
  kind text not null check (kind in ('replay', 'dismissal')),
  created_at timestamptz not null default now(),
  delivery_ids uuid[] not null,
  undone_at timestamptz
);
comment on table delivery_actions is 'Replays and dismissals of many deliveries, kept for a day so that they can be undone.';
comment on column delivery_actions.id is 'Random. The entry of each delivery''s history names it.';
comment on column delivery_actions.kind is 'What was done.';
comment on column delivery_actions.created_at is 'When.';
comment on column delivery_actions.delivery_ids is 'The deliveries, at most 10,000.';
comment on column delivery_actions.undone_at is 'When it was undone; null: it was not.';
create index delivery_actions_created_at on delivery_actions (created_at);
comment on index delivery_actions_created_at is 'For maintenance, which deletes old actions.';
