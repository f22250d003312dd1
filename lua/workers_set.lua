#!lua flags=allow-oom
-- workers_set: stores which workers of a namespace a process knows.
-- KEYS[1] workers hash: process → until when the entry counts, in ms, a space, and its workers as JSON
-- ARGV[1] prefix  unused
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] process name of the entry
-- ARGV[4] value   the workers as JSON; '' = it knows none
-- ARGV[5] ttl_ms  how long the entry counts
-- Returns ok
-- Changes: the entry. The hash expires with its last entry
-- Errors: those of scripts that write (prelude.lua)
-- Since layout 2

local process, value, ttl_ms = ARGV[3], ARGV[4], tonumber(ARGV[5])

if value == '' then
  call('HDEL', KEYS[1], process)
else
  call('HSET', KEYS[1], process, text('%d %s', now_ms + ttl_ms, value))
  call('PEXPIRE', KEYS[1], ttl_ms)
end
return { 'ok' }
