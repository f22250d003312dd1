#!lua flags=allow-oom
-- limits_take: takes a unit of what a token may do in a window of time.
-- KEYS[1] units       hash of the running window: since (µs), taken
-- ARGV[1] prefix      unused
-- ARGV[2] now         ms, '' = Redis's clock
-- ARGV[3] units_max   in a window
-- ARGV[4] interval_ms length of a window; it begins with the first unit that is taken
-- Returns ok → since, which names the window
-- Returns over → all units of the window are taken
-- Since layout 1

local units_max, interval_ms = tonumber(ARGV[3]), tonumber(ARGV[4])

local window = redis.call('HMGET', KEYS[1], 'since', 'taken')
local since, taken = tonumber(window[1]), tonumber(window[2])
local ended = not since or now_us < since or now_us >= since + interval_ms * 1000
if ended then since, taken = now_us, 0 end
if taken >= units_max then return { 'over' } end
redis.call('HSET', KEYS[1], 'since', string.format('%.0f', since), 'taken', taken + 1)
-- The time to live only tidies up: a window ends by the clock above.
if ended then redis.call('PEXPIRE', KEYS[1], interval_ms) end
return { 'ok', since }
