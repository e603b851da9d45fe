-- The fan-out trigger exists only from the first subscription on.
--
-- A trigger with a transition table costs a COPY its multi-row inserts and a copy of each row, also while the trigger is disabled. CPU of
-- one Postgres 15 backend in us per event of 1 KiB, COPYs of 128 rows, medians of 7 alternating rounds (quartiles of the ratio):
--
--     trigger disabled, as before this version                 7.2
--     no trigger                                               6.2   0.84 (0.83 to 0.90)
--     COPY into the day's partition, no trigger on it          5.8   0.81 (0.80 to 0.84)
--     COPY into the partition, a disabled trigger on it              1.07 (1.00 to 1.22), 64 rows a COPY
--
-- A COPY into the partition is not worth its special cases: with a fan-out trigger on it, it costs what a COPY into the parent costs.

create or replace function enable_fan_out() returns trigger language plpgsql as $$
begin
  if exists (select from subscriptions) and not exists (
    select from pg_trigger where tgrelid = 'events'::regclass and tgname = 'events_fan_out' and tgenabled <> 'D'
  ) then
    -- Replaces the disabled trigger of earlier versions, and the one of a first subscription that was created at the same time.
    create or replace trigger events_fan_out after insert on events
      referencing new table as arrived for each statement execute function fan_out();
    comment on trigger events_fan_out on events is 'Created by the first subscription, see enable_fan_out().';
  end if;
  return null;
end
$$;
comment on function enable_fan_out is 'Creates the fan-out trigger with the first subscription. It stays.';

-- The removal needs an exclusive lock for a moment. Behind a backup, which can take hours, it is left out, so that no COPY waits: the
-- disabled trigger works as before.
do $$
declare
  lock_timeout_before text := current_setting('lock_timeout');
begin
  perform set_config('lock_timeout', '2s', true);
  if exists (select from pg_trigger where tgrelid = 'events'::regclass and tgname = 'events_fan_out' and tgenabled = 'D') then
    drop trigger events_fan_out on events;
  end if;
  perform set_config('lock_timeout', lock_timeout_before, true);
exception
  when lock_not_available then null;
end
$$;
