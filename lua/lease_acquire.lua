#!lua flags=allow-oom
-- lease_acquire: takes the lock of a bucket for one pump.
-- KEYS[1] lock   string with a time to live
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    unused: a lease runs on the clock of Redis
-- ARGV[3] token  of the pump
-- ARGV[4] ttl_ms length of the lease
-- Returns ok → the pump leads the bucket
-- Returns held → another pump does
-- Since layout 1

local token, ttl_ms = ARGV[3], ARGV[4]

if redis.call('SET', KEYS[1], token, 'NX', 'PX', ttl_ms) then return { 'ok' } end
if redis.call('GET', KEYS[1]) ~= token then return { 'held' } end
redis.call('PEXPIRE', KEYS[1], ttl_ms)
return { 'ok' }
