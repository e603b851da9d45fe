-- Counts requests in one sliding window (see window.ts), by the clock of the store (Redis 5 or newer).
-- KEYS[1]: the counter, "bucket previous current". ARGV[1]: max, ARGV[2]: window in ms, ARGV[3]: number of requests.
-- Counts as many of the requests as the limit allows. Returns {previous, current, elapsed ms} without these requests; the caller
-- computes the decision on each request from them.
local max, window_ms, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local bucket = math.floor(now_ms / window_ms)
local elapsed_ms = now_ms - bucket * window_ms
local previous, current = 0, 0

local stored = redis.call('GET', KEYS[1])
if stored then
  local at, before, count = string.match(stored, '^(%d+) (%d+) (%d+)$')
  at, before, count = tonumber(at), tonumber(before), tonumber(count)
  if at == bucket then
    previous, current = before, count
  elseif at == bucket - 1 then
    previous = count
  elseif at == bucket + 1 then
    -- The clock of a promoted replica is slightly behind: keep the bucket of the counter.
    bucket, elapsed_ms, previous, current = at, 0, before, count
  end
end

-- A refused request writes nothing: it is not counted, and does not extend the expiry of the counter.
local free = math.floor((max * window_ms - previous * (window_ms - elapsed_ms) - current * window_ms) / window_ms)
if free >= 1 then
  local value = string.format('%.0f %.0f %.0f', bucket, previous, current + math.min(wanted, free))
  redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', 2 * window_ms - elapsed_ms))
end
return { previous, current, elapsed_ms }
