#!lua flags=allow-oom
-- roster: keeps a pump on the list of live instances and tells who else is on it.
-- KEYS[1] roster   sorted set, instance → end of its membership in ms
-- ARGV[1] prefix   unused
-- ARGV[2] now      ms, '' = Redis's clock
-- ARGV[3] instance name of the pump
-- ARGV[4] ttl_ms   membership from now on; 0 = leave
-- ARGV[5] channel  told when somebody joins or leaves
-- Returns ok → ms until the next membership ends, the live instances
-- Since layout 1

local instance, ttl_ms, channel = ARGV[3], tonumber(ARGV[4]), ARGV[5]

local changed = redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms)
if ttl_ms > 0 then
  changed = changed + redis.call('ZADD', KEYS[1], now_ms + ttl_ms, instance)
else
  changed = changed + redis.call('ZREM', KEYS[1], instance)
end
if changed > 0 then redis.call('PUBLISH', channel, instance) end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or now_ms
return { 'ok', first - now_ms, redis.call('ZRANGE', KEYS[1], 0, -1) }
