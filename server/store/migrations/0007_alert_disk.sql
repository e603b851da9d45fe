-- Alerts about disks.
--
-- Compatible from: 1

alter table alerts drop constraint alerts_condition_check;
alter table alerts add constraint alerts_condition_check
  check (condition in ('pending', 'dead_letters', 'rejections', 'silent', 'spool', 'cell', 'disk'));
