-- The longest times of an hour or a day, without the others: which webhooks and agents are the slowest. Counts of latency wait while all rows are
-- read once to build the index.
--
-- Compatible from: 1

create index latency_longest on latency (step, at, bucket);
comment on index latency_longest is 'For the slowest webhooks and agents, and for maintenance.';
drop index latency_age;
