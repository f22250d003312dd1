#!lua flags=allow-oom
-- limits_give_back: gives a unit back whose request did not succeed.
-- KEYS[1] units  hash of the running window: since (µs), taken
-- ARGV[1] prefix unused
-- ARGV[2] now    unused: a window that is over has another name, or no key
-- ARGV[3] since  the name of the window that the unit was taken from
-- Returns ok → the unit can be taken again
-- Returns gone → its window is over; nothing changed
-- Since layout 1

local window = redis.call('HMGET', KEYS[1], 'since', 'taken')
local taken = tonumber(window[2]) or 0
if window[1] ~= ARGV[3] or taken <= 0 then return { 'gone' } end
redis.call('HSET', KEYS[1], 'taken', taken - 1)
return { 'ok' }
