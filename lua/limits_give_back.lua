#!lua flags=allow-oom
-- limits_give_back: gives back the unit of a request that did not succeed.
-- KEYS[1] units  hash of the current window: since (µs), taken, calls (ids of the last calls that took a unit)
-- ARGV[1] prefix unused
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] since  of the window that the unit was taken from
-- ARGV[4] latest when the caller stops waiting for the reply, in ms; '' = unknown
-- ARGV[5] id     of the call that took the unit
-- Returns ok → now_ms; the unit can be taken again
-- Returns gone → now_ms; nothing changed: the window has ended, or none of its units is taken
-- Returns late → now_ms; nothing changed: the caller no longer waits, or the clock was set forward
-- Changes: taken and calls of the window
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include prelude

-- The caller passes its id to a later limits_take, which gives the unit back.
if ARGV[4] ~= '' and now_ms > tonumber(ARGV[4]) then return { 'late', now_ms } end

local window = redis.call('HMGET', KEYS[1], 'since', 'taken', 'calls')
local taken = tonumber(window[2]) or 0
if window[1] ~= ARGV[3] or taken <= 0 then return { 'gone', now_ms } end
local others = string.gsub(window[3] or '', ARGV[5] .. ' ', '')
redis.call('HSET', KEYS[1], 'taken', taken - 1, 'calls', others)
return { 'ok', now_ms }
