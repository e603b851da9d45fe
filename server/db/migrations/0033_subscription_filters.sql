-- Subscriptions can have a filter. Claims evaluate it; a delivery that it excludes becomes filtered and can be replayed.
--
--          fan out                 claim                 ack
--   event ---------> pending ----------------> leased ---------> done
--                       ^   |
--                       |   +-------------> filtered   (the filter of the subscription excludes its event)
--                       +----------------------+
--                             replay (by a user): the filter does not judge it again

alter table subscriptions
  add column filter text check (length(filter) between 1 and 2000),
  add column filter_failures bigint not null default 0,
  add column filter_failure text check (length(filter_failure) <= 500),
  add column filter_failed_at timestamptz;
comment on column subscriptions.filter is 'CEL expression, see server/filters/. Deliveries of events for which it is false become filtered. Null: none.';
comment on column subscriptions.filter_failures is 'Events for which this filter failed since it was set. They are delivered.';
comment on column subscriptions.filter_failure is 'Why it failed last; null: it has not failed.';
comment on column subscriptions.filter_failed_at is 'When it failed last.';

-- Not valid: the rows that exist met narrower checks. Checking them again would lock the table for as long as it is read.
alter table deliveries
  drop constraint deliveries_state_check,
  drop constraint deliveries_check,
  add constraint deliveries_state_check
    check (state in ('pending', 'leased', 'done', 'dead', 'dismissed', 'filtered')) not valid,
  add constraint deliveries_check
    check ((finished_at is not null) = (state in ('done', 'dead', 'dismissed', 'filtered'))) not valid;
comment on column deliveries.finished_at is 'When it became done, dead or filtered; null: none of them. Not changed by a dismissal.';
