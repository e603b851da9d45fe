-- The deliveries that a revoked agent left, counted once when its alert ends: the list of alerts counted them at each read, and could not
-- be read while the deliveries could not.
--
-- Compatible from: 42

alter table alerts add column undelivered integer;
comment on column alerts.undelivered is 'Unfinished deliveries of its agent when it ended, if the agent was revoked; null: it was not.';
