#!lua flags=allow-oom
-- lease_renew: prolongs the lock of a bucket that this pump still holds.
-- KEYS[1] lock   string with a time to live
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    unused: a lease runs on the clock of Redis
-- ARGV[3] token  of the pump
-- ARGV[4] ttl_ms length of the lease from now on
-- Returns ok → the pump leads the bucket
-- Returns lost → it does not any more
-- Since layout 1

local token, ttl_ms = ARGV[3], ARGV[4]

if redis.call('GET', KEYS[1]) ~= token then return { 'lost' } end
redis.call('PEXPIRE', KEYS[1], ttl_ms)
return { 'ok' }
