-- What agents did in each quarter of an hour, for the 96 cells of an agent's health. Code that does not know the table continues to work.
--
-- Compatible from: 42

create table agent_history (
  agent_id uuid not null,
  at timestamptz not null,
  acknowledged bigint not null,
  failed bigint not null,
  primary key (agent_id, at)
) with (fillfactor = 70);
comment on table agent_history is
  'Attempts of agents by quarter of an hour, kept for two days. Each process adds its counts every few seconds. The free space of the pages lets the additions keep their place.';
comment on column agent_history.agent_id is 'The agent, which may be removed by now.';
comment on column agent_history.at is 'Start of the quarter of an hour.';
comment on column agent_history.acknowledged is 'Deliveries that it acknowledged.';
comment on column agent_history.failed is 'Attempts that it rejected, or whose lease expired.';
create index agent_history_age on agent_history (at);
comment on index agent_history_age is 'For maintenance.';
