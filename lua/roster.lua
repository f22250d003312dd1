#!lua flags=allow-oom
-- roster: keeps a pump on the list of live instances and tells who else is on it.
-- KEYS[1] roster   sorted set, instance → end of its membership in ms; with ':clock' behind it: when it was last called;
--                 with ':cut_off': hash, instance → servers that it cannot reach
-- ARGV[1] prefix   unused
-- ARGV[2] now      ms, '' = Redis's clock
-- ARGV[3] instance name of the pump
-- ARGV[4] ttl_ms   membership from now on; 0 = leave
-- ARGV[5] channel  gets a message when a pump joins, leaves, or changes its cut_off
-- ARGV[6] cut_off  addresses of servers that the pump cannot reach, one a line
-- Returns ok → 1 if the pump was not on it else 0, ms until the next membership ends, the live instances, then
--              instance and servers of those that cannot reach some
-- Since layout 1

local instance, ttl_ms, channel, cut_off = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]

-- A clock that was set back would keep a dead pump on the roster for as much longer: ends move back with it.
local clock = KEYS[1] .. ':clock'
local back_ms = (tonumber(redis.call('GET', clock)) or now_ms) - now_ms
if back_ms > 0 then
  local ends = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
  for i = 1, #ends, 2 do redis.call('ZADD', KEYS[1], ends[i + 1] - back_ms, ends[i]) end
end
redis.call('SET', clock, text('%d', now_ms))

local ended = redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms)
local joined, left = 0, 0
if ttl_ms > 0 then
  joined = redis.call('ZADD', KEYS[1], now_ms + ttl_ms, instance)
else
  left = redis.call('ZREM', KEYS[1], instance)
end
local cut_offs = KEYS[1] .. ':cut_off'
local changed = (redis.call('HGET', cut_offs, instance) or '') ~= cut_off and 1 or 0
if cut_off == '' then redis.call('HDEL', cut_offs, instance) else redis.call('HSET', cut_offs, instance, cut_off) end
if ended + joined + left + changed > 0 then redis.call('SPUBLISH', channel, instance) end

local living, first_end, is_living = {}, nil, {}
for i, value in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')) do
  if i % 2 == 1 then
    living[#living + 1], is_living[value] = value, true
  else
    first_end = first_end or value
  end
end
local cut_off_pairs = redis.call('HGETALL', cut_offs)
local members_cut_off = {}
for i = 1, #cut_off_pairs, 2 do
  if is_living[cut_off_pairs[i]] then
    members_cut_off[#members_cut_off + 1] = cut_off_pairs[i]
    members_cut_off[#members_cut_off + 1] = cut_off_pairs[i + 1]
  else
    redis.call('HDEL', cut_offs, cut_off_pairs[i])
  end
end
return { 'ok', joined, (first_end or now_ms) - now_ms, living, members_cut_off }
