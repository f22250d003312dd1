#!lua flags=allow-oom
-- lease_acquire: takes the lock of a bucket for one pump, unless a living one has it.
-- KEYS[1] lock   the token of the pump that leads the bucket
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    unused
-- ARGV[3] token  of the pump
-- ARGV[4] living the first instance on the roster; the others follow
-- Returns ok → the pump leads the bucket
-- Returns held → another pump does
-- Since layout 1

local token, first_living = ARGV[3], 4

if redis.call('SET', KEYS[1], token, 'NX') then return { 'ok' } end
local holder = redis.call('GET', KEYS[1])
if holder == token then return { 'ok' } end
for i = first_living, #ARGV do
  if ARGV[i] == holder then return { 'held' } end
end
redis.call('SET', KEYS[1], token)
return { 'ok' }
