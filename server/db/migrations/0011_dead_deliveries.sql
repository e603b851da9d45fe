-- Dead letters are few among millions: to count or list them must not walk through all deliveries.
create index deliveries_dead on deliveries (received_at, id) where state = 'dead';
