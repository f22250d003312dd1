#!lua flags=allow-oom
-- barrier: writes and deletes a key, so that a replica or disk that has this write has all earlier writes too.
-- KEYS[1] barrier does not exist between two calls
-- ARGV: none
-- Returns ok → the write is on its way to replicas and to the append-only file
-- Changes: nothing that stays
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2

redis.call('SET', KEYS[1], '')
redis.call('DEL', KEYS[1])
return { 'ok' }
