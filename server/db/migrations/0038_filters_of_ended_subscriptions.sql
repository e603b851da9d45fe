-- The end of a subscription does not end its filter: deliveries that wait are still judged by it.

alter table replay_targets add column filter text;
comment on column replay_targets.filter is
  'Filter of the subscription when it ended, for its deliveries that were waiting; null: none. The filter of a subscription comes first.';
