-- Users put a condition aside for a while. Code that does not know the table continues to work, and lists every condition.
--
-- Compatible from: 42

create table condition_snoozes (
  condition_id text primary key check (length(condition_id) <= 300),
  until timestamptz not null,
  state text,
  count double precision,
  snoozed_at timestamptz not null default now(),
  snoozed_by text not null
);
comment on table condition_snoozes is 'Conditions that the overview does not show for a while. A row goes at its end.';
comment on column condition_snoozes.condition_id is 'Kind of the condition, and the id of its subject.';
comment on column condition_snoozes.until is 'End at the latest.';
comment on column condition_snoozes.state is 'It ends when the condition differs from this; null: at `until` alone.';
comment on column condition_snoozes.count is 'With a state: it ends when more are counted; null: nothing is counted.';
comment on column condition_snoozes.snoozed_at is 'When it began.';
comment on column condition_snoozes.snoozed_by is 'Name of the user, as in the audit log.';
