#!lua flags=allow-oom
-- lease_release: frees the lock of a bucket if the caller holds it.
-- KEYS[1] lock   token of the pump that leads the bucket
-- ARGV[1] prefix of the bucket's keys; unused
-- ARGV[2] now    ms; unused
-- ARGV[3] token  of the calling pump
-- Returns ok → the lock is free
-- Returns lost → the lock was free, or another pump holds it; nothing changed
-- Changes: deletes the lock
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2

local token = ARGV[3]

if redis.call('GET', KEYS[1]) ~= token then return { 'lost' } end
redis.call('DEL', KEYS[1])
return { 'ok' }
