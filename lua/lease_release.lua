#!lua flags=allow-oom
-- lease_release: hands the lock of a bucket back, if this pump still holds it.
-- KEYS[1] lock   the token of the pump that leads the bucket
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    unused
-- ARGV[3] token  of the pump
-- Returns ok → the bucket is free
-- Returns lost → another pump, or nobody, held it; nothing changed
-- Since layout 1

local token = ARGV[3]

if redis.call('GET', KEYS[1]) ~= token then return { 'lost' } end
redis.call('DEL', KEYS[1])
return { 'ok' }
