#!lua flags=allow-oom
-- lease_acquire: takes the lock of a bucket for a pump, unless another live pump holds it.
-- KEYS[1] lock   token of the pump that leads the bucket
-- ARGV[1] prefix of the bucket's keys and channels
-- ARGV[2] now    ms; unused
-- ARGV[3] token  of the calling pump
-- ARGV[4] living the first instance on the roster of the server; the others follow
-- Returns ok → the caller leads the bucket
-- Returns held → another live pump leads it; nothing changed
-- Changes: the lock. If it had a holder, sends the message "lock" and the holder's token on the alarm channel
-- Errors: those of scripts that write (prelude.lua)
-- Since layout 2

local token, first_living = ARGV[3], 4

if redis.call('SET', KEYS[1], token, 'NX') then return { 'ok' } end
local holder = redis.call('GET', KEYS[1])
if holder == token then return { 'ok' } end
for i = first_living, #ARGV do
  if ARGV[i] == holder then return { 'held' } end
end
redis.call('SET', KEYS[1], token)
-- A caller with an old roster takes the lock of a live pump, too. That one must ask for it again: it may have no reason
-- for a call on this bucket for minutes.
redis.call('SPUBLISH', ARGV[1] .. 'alarm', 'lock ' .. holder)
return { 'ok' }
