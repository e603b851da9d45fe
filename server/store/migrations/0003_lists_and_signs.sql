-- Indexes for what is read of few rows among many: new dead letters, revoked agents, the newest tokens. Finished deliveries are read once to
-- build the first.
--
-- Compatible from: 1

create index deliveries_dead_since on deliveries_finished (finished_at) where state = 'dead';
comment on index deliveries_dead_since is 'For alerts of new dead letters. Written only when a delivery dies or is replayed.';
create index agents_revoked on agents (created_at, id) where revoked_at is not null;
comment on index agents_revoked is 'For the list of revoked agents, and for their unfinished deliveries.';
create index api_tokens_newest on api_tokens (created_at, id);
comment on index api_tokens_newest is 'For the list.';
