-- A token that a token made ends with it.

alter table api_tokens add column made_by uuid references api_tokens (id) on delete cascade;
create index api_tokens_made_by on api_tokens (made_by) where made_by is not null;
comment on column api_tokens.made_by is 'The token whose request made this one: no stronger, no longer, and revoked with it; null: a person or a command did.';

-- ISO 8601 in UTC, always 24 characters: in collation C its order is that of time.
alter table audit_log add column at text collate "C" generated always as (entry ->> 'at') stored;
create index audit_log_at on audit_log (at, number);
create index audit_log_action on audit_log (action collate "C", number);
comment on column audit_log.at is 'When, by the clock of the process that wrote it.';
