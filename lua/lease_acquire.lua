#!lua flags=allow-oom
-- lease_acquire: takes the lock of a bucket for a pump, unless another live pump holds it.
-- KEYS[1] lock   token of the pump that leads the bucket
-- ARGV[1] prefix of the bucket's keys; unused
-- ARGV[2] now    ms; unused
-- ARGV[3] token  of the calling pump
-- ARGV[4] channel gets the message "lock" and the token of a pump whose lock is taken
-- ARGV[5] living the first instance on the roster of the server; the others follow
-- Returns ok → the caller leads the bucket
-- Returns held → another live pump leads it; nothing changed
-- Changes: the lock
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2

local token, channel, first_living = ARGV[3], ARGV[4], 5

if redis.call('SET', KEYS[1], token, 'NX') then return { 'ok' } end
local holder = redis.call('GET', KEYS[1])
if holder == token then return { 'ok' } end
for i = first_living, #ARGV do
  if ARGV[i] == holder then return { 'held' } end
end
redis.call('SET', KEYS[1], token)
-- A caller with an old roster takes the lock of a live pump, too. That one must ask for it again: it may have no reason
-- for a call on this bucket for minutes.
redis.call('SPUBLISH', channel, 'lock ' .. holder)
return { 'ok' }
