#!lua flags=allow-oom
-- limits_take: takes a unit of a token's rate limit from the current window.
-- KEYS[1] units       hash of the current window: since (µs), taken, calls (ids of the last calls that took a unit)
-- ARGV[1] prefix      unused
-- ARGV[2] now         ms; '' = Redis's clock
-- ARGV[3] units_max   units of a window
-- ARGV[4] interval_ms length of a window; a window begins with the first unit that is taken
-- ARGV[5] latest      when the caller stops waiting for the reply, in ms; '' = unknown
-- ARGV[6] id          of this call
-- ARGV[7] lost        id of an earlier call without a reply: the unit that it took is given back; further ids follow
-- Returns ok → now_ms, since, which identifies the window
-- Returns over → now_ms; all units of the window are taken
-- Returns late → now_ms; nothing changed: the caller no longer waits, or the clock was set forward
-- Changes: the window; over: only what lost calls give back
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include prelude

-- An id has 12 digits and is followed by a space. The last 32 ids are kept.
local CALLS_BYTES = 32 * 13

local units_max, interval_ms, first_lost = tonumber(ARGV[3]), tonumber(ARGV[4]), 7

-- A server that was paused executes calls that their callers have given up.
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
-- Expiry only frees memory: a window ends by the comparison above.
if ended then redis.call('PEXPIRE', KEYS[1], interval_ms) end
return { 'ok', now_ms, since }
