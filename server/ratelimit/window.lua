-- One request against one counter: core/window.ts, by the clock of the store (Redis 5 or newer).
-- KEYS[1] the counter, "bucket previous current"; ARGV[1] max, ARGV[2] window in ms.
-- Answers {previous, current, elapsed ms}, this request left out; from these the caller works out the same decision.
local max, window_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
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
    -- A replica took over whose clock is a little behind: stay where the counter is.
    bucket, elapsed_ms, previous, current = at, 0, before, count
  end
end

-- A refused request writes nothing: it neither counts nor keeps the counter alive.
if previous * (window_ms - elapsed_ms) + (current + 1) * window_ms <= max * window_ms then
  local value = string.format('%.0f %.0f %.0f', bucket, previous, current + 1)
  redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', 2 * window_ms - elapsed_ms))
end
return { previous, current, elapsed_ms }
