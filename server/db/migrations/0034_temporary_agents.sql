-- An agent of `weir listen` is temporary: removed at the end of the command, and by maintenance if the command was killed.

alter table agents add column temporary boolean not null default false;
comment on column agents.temporary is
  'Removed with its deliveries when it is revoked, and an hour after it was last seen. Once revoked it is no longer shown.';
