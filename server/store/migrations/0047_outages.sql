-- Outages of the database, which each machine adds when they have ended. Code that does not know the table continues to work.
--
-- Compatible from: 42

create table outages (
  id uuid primary key,
  machine text not null check (length(machine) <= 300),
  began_at timestamptz not null,
  ended_at timestamptz not null,
  refused bigint not null,
  spooled bigint not null
);
create index outages_by_end on outages (ended_at);
comment on table outages is 'Outages of the database, as each machine saw them. Kept as long as the hours of history.';
comment on column outages.id is 'Made by the machine, so that it may add the outage again.';
comment on column outages.machine is 'Name of the machine.';
comment on column outages.began_at is 'When the database stopped answering the machine.';
comment on column outages.ended_at is 'When the database answered again, or when Weir was stopped before.';
comment on column outages.refused is 'Requests to webhooks that were answered 5xx.';
comment on column outages.spooled is 'Events that were written to the spool.';
comment on index outages_by_end is 'For lists of a time span and for retention.';
