-- Lists of tens of thousands of webhooks and agents, newest first, without a sort of all of them; and the webhooks with refused requests of
-- the last hour without the rows of all others. Code that does not know the indexes continues to work.
--
-- Compatible from: 42

create index webhooks_newest on webhooks (created_at, id) where deleted_at is null;
comment on index webhooks_newest is 'For the list, and for the webhooks that a process reads when it starts.';
create index agents_newest on agents (created_at, id);
comment on index agents_newest is 'For the list.';
create index history_refused on history (step, at)
  where step = 60 and rejected + limited + length_required + too_large + unavailable > 0;
comment on index history_refused is 'For the webhooks with refused requests in the last hour. Most minutes have none and are not in it.';
