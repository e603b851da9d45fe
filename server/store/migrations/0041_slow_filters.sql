-- A filter that takes too long is not asked for a while: it holds the thread in which the filters of other agents wait. Defaults that are
-- constant and nullable columns do not rewrite the tables, and code that does not know the columns continues to work.

alter table subscriptions
  add column filter_slow int not null default 0,
  add column filter_slow_at timestamptz;
comment on column subscriptions.filter_slow is
  'Events on which this filter took too long or ended its thread, since it was saved; it counts again from 0 after an hour without one.';
comment on column subscriptions.filter_slow_at is 'When it did so last.';

alter table replay_targets
  add column filter_slow int not null default 0,
  add column filter_slow_at timestamptz;
comment on column replay_targets.filter_slow is 'As in subscriptions.';
comment on column replay_targets.filter_slow_at is 'As in subscriptions.';
