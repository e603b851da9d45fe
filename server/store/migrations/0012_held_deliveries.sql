-- Since when the oldest delivery of an agent is held by key, with one probe.
--
-- Compatible from: 1

create index deliveries_held on deliveries_live (agent_id, received_at) where available_at = 'infinity' and order_lane = 0;
comment on index deliveries_held is 'For agents with a key that is held too long. Written only when a delivery is set aside or passed on.';
