#!lua flags=allow-oom
-- limits_take: takes a unit of what a token may do in a window of time.
-- KEYS[1] units       hash of the running window: since (µs), taken, calls (ids of the last calls that took a unit)
-- ARGV[1] prefix      unused
-- ARGV[2] now         ms, '' = Redis's clock
-- ARGV[3] units_max   in a window
-- ARGV[4] interval_ms length of a window; it begins with the first unit that is taken
-- ARGV[5] latest      when the caller stops waiting for the reply, in ms, '' = unknown
-- ARGV[6] id          of this call
-- ARGV[7] lost        id of a call whose reply was lost: the unit that it took is given back; further ids follow
-- Returns ok → now_ms, since, which names the window
-- Returns over → now_ms; all units of the window are taken
-- Returns late → now_ms; the caller no longer waits, or the clock was set: nothing changed
-- Since layout 1

-- Ids have 12 digits and a space behind them. The last 32 are kept.
local CALLS_BYTES = 32 * 13

local units_max, interval_ms, first_lost = tonumber(ARGV[3]), tonumber(ARGV[4]), 7

-- A server that was paused executes calls whose callers have left.
if ARGV[5] ~= '' and now_ms > tonumber(ARGV[5]) then return { 'late', now_ms } end

local window = redis.call('HMGET', KEYS[1], 'since', 'taken', 'calls')
local since, taken, calls = tonumber(window[1]), tonumber(window[2]), window[3] or ''
local ended = not since or now_us < since or now_us >= since + interval_ms * 1000
if ended then since, taken, calls = now_us, 0, '' end
for i = first_lost, #ARGV do
  local others, found = string.gsub(calls, ARGV[i] .. ' ', '')
  calls, taken = others, math.max(taken - found, 0)
end
if taken >= units_max then
  if #ARGV >= first_lost then redis.call('HSET', KEYS[1], 'taken', taken, 'calls', calls) end
  return { 'over', now_ms }
end
calls = string.sub(calls .. ARGV[6] .. ' ', -CALLS_BYTES)
redis.call('HSET', KEYS[1], 'since', string.format('%.0f', since), 'taken', taken + 1, 'calls', calls)
-- The time to live only tidies up: a window ends by the clock above.
if ended then redis.call('PEXPIRE', KEYS[1], interval_ms) end
return { 'ok', now_ms, since }
