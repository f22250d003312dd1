#!lua flags=allow-oom
-- poll: returns which queues that consumers wait for have ready jobs, and registers their process with the others.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] waiter id of the process
-- ARGV[4] name   namespace/queue of the first queue
-- ARGV[5] of_group most jobs of a group of it that may be leased in this bucket at a time; '' = any number. Both of each
--   further queue follow
-- Returns ok → the place of each queue among these that has hints, from 0
-- Changes: registers the process with the queues without hints
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include waiting, lines

local reply = { 'ok' }
local names = {}
for i = 4, #ARGV, 2 do names[#names + 1] = ARGV[i] end
for i, number in ipairs(call('HMGET', KEYS[1], unpack(names))) do
  local queue = tonumber(number)
  if queue and has_hints(text('%d', queue), ARGV[3 + 2 * i]) then
    reply[#reply + 1] = i - 1
  else
    register(names[i], ARGV[3])
  end
end
return reply
