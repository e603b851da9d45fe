-- Replays follow subscriptions and filters. Jobs of earlier releases did not, and those that are unfinished end as they began.
-- An older release that runs a job does not follow them.
--
-- Compatible from: 42

alter table jobs add column beyond_subscriptions boolean not null default true;
alter table jobs alter column beyond_subscriptions set default false;
comment on column jobs.beyond_subscriptions is 'Also what subscriptions and filters exclude.';
