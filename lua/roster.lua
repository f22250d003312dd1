#!lua flags=allow-oom
-- roster: adds a pump to the live instances of a server, or prolongs or ends its membership, and lists the instances.
-- KEYS[1] roster   sorted set: instance → end of its membership in ms; '' → when the roster was last written.
--                  It expires with the last membership
-- ARGV[1] prefix   unused
-- ARGV[2] now      ms; '' = Redis's clock
-- ARGV[3] instance name of the calling pump
-- ARGV[4] ttl_ms   length of the membership from now; 0 = leave
-- ARGV[5] channel  gets the message "roster" when a pump joins, leaves or expires
-- Returns ok → 1 if the pump joined else 0, ms until the next membership ends (0 = the roster is empty), the live
--   instances in the order of their names
-- Changes: the roster; removes members whose membership has expired
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include prelude

local instance, ttl_ms, channel = ARGV[3], tonumber(ARGV[4]), ARGV[5]
local CLOCK = ''

local stored = call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
local clock_ms, own_end_ms = now_ms, 0
for i = 1, #stored, 2 do
  if stored[i] == CLOCK then clock_ms = tonumber(stored[i + 1]) end
  if stored[i] == instance then own_end_ms = tonumber(stored[i + 1]) end
end
-- If the clock was set back, a dead pump would stay on the roster longer by that. So all ends move back too.
local back_ms = max(clock_ms - now_ms, 0)
local is_new = ttl_ms > 0 and own_end_ms - back_ms <= now_ms

local living, gone, scores, first_ms, last_ms = {}, {}, { now_ms, CLOCK }, nil, now_ms
local function keep(member, end_ms)
  living[#living + 1] = member
  scores[#scores + 1], scores[#scores + 2] = end_ms, member
  first_ms, last_ms = min(first_ms or end_ms, end_ms), max(last_ms, end_ms)
end

if ttl_ms > 0 then keep(instance, now_ms + ttl_ms) elseif own_end_ms > 0 then gone[1] = instance end
for i = 1, #stored, 2 do
  local member, end_ms = stored[i], stored[i + 1] - back_ms
  if member ~= CLOCK and member ~= instance then
    if end_ms > now_ms then keep(member, end_ms) else gone[#gone + 1] = member end
  end
end
table.sort(living)

-- The key exists until the last command: on a cluster, a call on a missing key is redirected while its slot moves.
if #living > 0 then
  call('ZADD', KEYS[1], unpack(scores))
  if #gone > 0 then call('ZREM', KEYS[1], unpack(gone)) end
  call('PEXPIRE', KEYS[1], last_ms - now_ms)
else
  call('DEL', KEYS[1])
end
if is_new or #gone > 0 then call('SPUBLISH', channel, 'roster') end
return { 'ok', is_new and 1 or 0, (first_ms or now_ms) - now_ms, living }
