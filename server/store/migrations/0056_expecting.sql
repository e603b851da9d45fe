-- The webhooks that expect events, without a read of all others. Code that does not know the index continues to work.
--
-- Compatible from: 42

create index webhooks_expecting on webhooks (id) where expect_every_seconds is not null and deleted_at is null;
comment on index webhooks_expecting is 'For the webhooks that are overdue, which every page with conditions looks for. Most webhooks expect nothing and are not in it.';
