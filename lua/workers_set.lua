#!lua
-- workers_set: stores what a process knows of some workers of a namespace.
-- KEYS[1] workers sorted set in the order of names, as all scores are 0: the name of a worker, \0, the name of a process, \0, until
--   when the entry counts, in ms, a space, and the worker as JSON
-- ARGV[1] prefix  unused
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] process name of the process
-- ARGV[4] ttl_ms  how long the entries count
-- ARGV[5] probe   any integer from 0: the entries at this place, modulo their number, are removed if they count no longer
-- ARGV[6] worker  the name of a worker, and the worker as JSON; further pairs follow
-- Returns ok
-- Changes: the entries of the process for these workers; entries at the place of the probe. The set expires with its last entry
-- Errors: the errors of scripts that write (prelude.lua), among them OOM at maxmemory: the entries are hints, and expire
-- Since layout 2
--- include prelude

-- Entries of processes that have ended are removed by the probes of others, so many of them in a call.
local PROBED = 5

local process, ttl_ms, probe, first_worker = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), 6

for i = first_worker, #ARGV, 2 do
  local entry = ARGV[i] .. '\0' .. process .. '\0'
  local old = call('ZRANGE', KEYS[1], '[' .. entry, '(' .. ARGV[i] .. '\0' .. process .. '\1', 'BYLEX')
  if #old > 0 then call('ZREM', KEYS[1], unpack(old)) end
  -- %s would end at the first \0.
  call('ZADD', KEYS[1], 0, entry .. text('%.0f ', now_ms + ttl_ms) .. ARGV[i + 1])
end
local at = probe % call('ZCOUNT', KEYS[1], '-inf', '+inf')
for _, entry in ipairs(call('ZRANGE', KEYS[1], at, at + PROBED - 1)) do
  local end_ms = string.match(entry, '^%Z+%z%Z+%z(%d+) ')
  if not end_ms or tonumber(end_ms) <= now_ms then call('ZREM', KEYS[1], entry) end
end
call('PEXPIRE', KEYS[1], ttl_ms)
return { 'ok' }
