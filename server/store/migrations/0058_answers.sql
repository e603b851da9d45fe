-- Answers that senders demand. Code that does not know the columns continues to answer 202.
--
-- Compatible from: 42

alter table webhooks
  add column answer jsonb,
  add column refused_status smallint constraint webhooks_refused_status_check check (refused_status in (401, 403));
comment on column webhooks.answer is 'Response to a request that was stored; null: as the scheme says.';
comment on column webhooks.refused_status is 'Status of the response to a request whose signature is refused; null: as the scheme says.';
