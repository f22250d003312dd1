#!lua flags=allow-oom
-- rate_give_back: gives units of a rate back that no delivery has used.
-- KEYS[1] state   text: since used last from to, all in µs (rate_take)
-- ARGV[1] prefix  unused
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] jobs    units of a full bucket, when the units were taken
-- ARGV[4] per_ms  the time in which an empty bucket filled then
-- ARGV[5] units   how many
-- ARGV[6] taken   the text that rate_take has returned: when the bucket had been full, and how long after that the units were
--                 taken, in µs
-- ARGV[7] latest  when the caller stops waiting for the reply, in ms; '' = unknown
-- Returns ok → now_ms; the units can be taken again
-- Returns gone → now_ms; nothing changed: they have come back by themselves
-- Returns late → now_ms; nothing changed: the caller no longer waits, or the clock was set forward
-- Changes: the state
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include prelude

if ARGV[7] ~= '' and now_ms > tonumber(ARGV[7]) then return { 'late', now_ms } end

local state = call('GET', KEYS[1]) or ''
local since, used, last, from, to = string.match(state, '^(%d+) ([%d.]+) (-?%d+) ([%d.]+) ([%d.]+)$')
local full_at, taken_at = string.match(ARGV[6], '^(%d+) (%d+)$')
if not since or since ~= full_at then return { 'gone', now_ms } end
since, used, from, to, taken_at = tonumber(since), tonumber(used), tonumber(from), tonumber(to), tonumber(taken_at)

-- While the units were out, others came back: those that these have displaced, in the worst case. So that time is charged to
-- them, unless it was charged to units before that were out at the same time: it brought each unit back once only.
local units_us, now = ARGV[5] * ARGV[4] * 1000 / ARGV[3], now_us - since
if taken_at > to then from, to = taken_at, taken_at end
local charged = min(units_us, max(0, from - taken_at) + max(0, now - to))
if charged == units_us then return { 'gone', now_ms } end
used = max(0, used - units_us + charged)
call('SET', KEYS[1], text('%.0f %.3f %s %.3f %.3f', since, used, last, min(from, taken_at), max(to, now)), 'KEEPTTL')
return { 'ok', now_ms }
