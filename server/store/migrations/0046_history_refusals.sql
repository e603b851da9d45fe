-- History counts refusals by status. Constant defaults do not rewrite the table, and an older release inserts rows without the columns.
--
-- Compatible from: 42

alter table history
  add column disabled bigint not null default 0,
  add column length_required bigint not null default 0,
  add column too_large bigint not null default 0,
  add column unavailable bigint not null default 0;
comment on column history.disabled is 'Requests refused because the webhook is disabled (410).';
comment on column history.length_required is 'Requests refused because they had no Content-Length (411).';
comment on column history.too_large is 'Requests refused because their body is too large (413).';
comment on column history.unavailable is 'Requests refused because they could not be stored or checked (503).';
