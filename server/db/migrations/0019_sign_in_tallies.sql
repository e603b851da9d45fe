-- Failed sign-ins, counted an hour at a time, so that the audit log grows by a bounded number of entries.

create table sign_in_tallies (
  -- 'account:<sha256 of what names it>', or 'others' while there are as many tallies as there may be.
  key text primary key,
  -- As the audit log names the account that was tried.
  target json not null,
  failures integer not null default 1 check (failures > 0),
  started_at timestamptz not null default now()
);
comment on table sign_in_tallies is 'Failed sign-ins of the last hour by account; housekeeping records their counts in the audit log and deletes them.';
