-- Pages that say whether it flows: agents that are paused, samples of requests that were neither stored nor rejected, requests that the previous
-- secret verified, and deliveries that ended by minute.
--
-- A release that does not know paused_at goes on to give a paused agent its deliveries.
--
-- Compatible from: 1

alter table agents add column paused_at timestamptz;
comment on column agents.paused_at is 'Since when its claims find nothing; null: it is not paused.';

drop trigger agents_announce on agents;
create trigger agents_announce
  after insert or delete or update of name, lookup_id, secret_hash, generation, revoked_at, max_leased, paused_at on agents
  for each row execute function announce_agent();
comment on trigger agents_announce on agents is 'All columns except when and from where it was seen.';
drop trigger agents_copy on agents;
create trigger agents_copy after insert or delete or update of name, generation, max_leased, revoked_at, paused_at on agents
  for each row execute function note_cell_copy('agent', 'id');
comment on trigger agents_copy on agents is 'The columns that statements in a cell join.';

create table request_samples (
  id uuid primary key,
  webhook_id uuid not null,
  received_at timestamptz not null,
  status smallint not null check (status between 200 and 599),
  reason varchar(60) not null,
  source_ip inet not null,
  bytes bigint check (bytes >= 0),
  event_id uuid
);
comment on table request_samples is
  'Samples of requests that were refused for another reason than their signature, and of duplicates. Bounded for each webhook and status, and in total; history has the counts.';
comment on column request_samples.id is 'UUIDv7 of received_at.';
comment on column request_samples.webhook_id is 'The webhook that the request was sent to.';
comment on column request_samples.received_at is 'When the request was answered, to the millisecond.';
comment on column request_samples.status is 'The status of the answer.';
comment on column request_samples.reason is 'Code of the problem, or duplicate.';
comment on column request_samples.source_ip is 'Address of the client, behind trusted proxies.';
comment on column request_samples.bytes is 'Content-Length of the request; null: it had none.';
comment on column request_samples.event_id is 'Of a duplicate: the event that was stored before; else null.';
create index request_samples_of_webhook on request_samples (webhook_id, status, id);
comment on index request_samples_of_webhook is 'For the list of one webhook, and for the oldest of a status to delete.';

alter table history add column by_previous bigint not null default 0;
comment on column history.by_previous is 'Requests that the previous secret verified, of those that were accepted or duplicates.';

create table agent_minutes (
  agent_id uuid not null,
  at timestamptz not null,
  ended bigint not null,
  primary key (agent_id, at)
) with (fillfactor = 70);
comment on table agent_minutes is 'Deliveries of agents that ended, by minute, kept for an hour or two. Written with agent_history.';
comment on column agent_minutes.agent_id is 'The agent, which may be removed by now.';
comment on column agent_minutes.at is 'Start of the minute.';
comment on column agent_minutes.ended is 'Deliveries that were acknowledged, filtered, or became dead letters.';

alter table agent_history add column ended bigint not null default 0;
comment on column agent_history.ended is 'Deliveries that were acknowledged, filtered, or became dead letters. 0 in rows of releases that did not count them.';
