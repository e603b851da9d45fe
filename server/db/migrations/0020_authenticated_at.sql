-- Some changes ask who it is once more.

alter table sessions add column authenticated_at timestamptz not null default now();
update sessions set authenticated_at = created_at;
comment on column sessions.authenticated_at is 'When its user last signed in, here or at the identity provider; hosted users change users only soon after that.';
