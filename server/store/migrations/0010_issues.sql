-- Issues in place of snoozes of conditions and of outages. Instant: both have few rows.
--
-- Compatible from: 1

create table issues (
  id uuid primary key,
  kind text not null,
  subject_id text not null check (length(subject_id) <= 300),
  part text not null default '' check (length(part) <= 1200),
  first_at timestamptz not null,
  last_at timestamptz not null,
  count double precision not null,
  facts json not null,
  resolved_at timestamptz,
  assignee text check (length(assignee) between 1 and 200),
  note text check (length(note) <= 2000),
  snoozed_until timestamptz
);
comment on table issues is 'Conditions that were seen, and groups of rejections and of dead letters. Resolved ones are kept for 90 days, at most 10,000.';
comment on column issues.id is 'UUIDv7 of the time at which Weir noticed it.';
comment on column issues.kind is 'As in model/conditions.ts. `database`: an outage that has ended, as a machine saw it.';
comment on column issues.subject_id is 'Id of the webhook or agent, name of the machine, process id, cell; empty: the installation.';
comment on column issues.part is 'The group, of several of one subject: its reason, and for rejections the header. Empty: there are no groups.';
comment on column issues.first_at is 'When it began.';
comment on column issues.last_at is 'When it was last seen; to about 10 seconds.';
comment on column issues.count is 'As last seen; of a kind that counts nothing, how often it began.';
comment on column issues.facts is 'What its text is made of, its largest value of each hour, and the change before it.';
comment on column issues.resolved_at is 'When it was no longer found; null: it holds. An issue that returns within an hour continues.';
comment on column issues.assignee is 'Who looks after it; null: not assigned.';
comment on column issues.note is 'What is known about it.';
comment on column issues.snoozed_until is 'It does not count as open until then; null: not snoozed.';
create unique index issues_current on issues (kind, subject_id, part) where resolved_at is null;
comment on index issues_current is 'An issue holds once, whichever machine notices it.';
create index issues_resolved on issues (resolved_at);
comment on index issues_resolved is 'For outages of a time span, for issues that continue, and for maintenance.';

insert into issues (id, kind, subject_id, first_at, last_at, count, facts, resolved_at)
select id, 'database', machine, began_at, ended_at, refused + spooled,
  json_build_object('name', machine, 'refused', refused, 'spooled', spooled), ended_at
from outages where ended_at > now() - interval '90 days'
order by ended_at desc limit 10000;

-- What is snoozed holds. Groups of rejections and of dead letters take over the snooze of their webhook or agent.
insert into issues (id, kind, subject_id, first_at, last_at, count, facts, snoozed_until)
select gen_random_uuid(), split_part(condition_id, ':', 1), subject_id, snoozed_at, snoozed_at, coalesce(count, 1),
  json_build_object('name', coalesce(
    (select name from webhooks where id::text = subject_id), (select name from agents where id::text = subject_id), subject_id)), until
from (select *, substr(condition_id, length(split_part(condition_id, ':', 1)) + 2) as subject_id from condition_snoozes) s
where until > now() and condition_id <> 'database';

comment on table condition_snoozes is 'Read by releases without the table issues alone, beside which this one may run during an update.';
comment on table outages is 'Read and written by releases without the table issues alone, beside which this one may run during an update.';
