#!lua flags=allow-oom
-- poll: returns which queues that consumers wait for have ready jobs, and registers their process with the others.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] waiter id of the process
-- ARGV[4] name   namespace/queue of the first queue. The names of the others follow
-- Returns ok → the place of each queue among these that has hints, from 0
-- Changes: registers the process with the queues without hints
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include waiting, lines

local reply = { 'ok' }
for i, number in ipairs(call('HMGET', KEYS[1], unpack(ARGV, 4))) do
  local queue = tonumber(number)
  if queue and has_hints(text('%d', queue)) then
    reply[#reply + 1] = i - 1
  else
    register(ARGV[i + 3], ARGV[3])
  end
end
return reply
