#!lua flags=no-writes
-- poll: returns which of the queues that consumers wait for have hints of ready jobs.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; unused
-- ARGV[3] name   namespace/queue of the first queue. Those of the others follow
-- Returns ok → the place of each queue in the arguments that has hints, from 0
-- Changes: nothing
-- Errors: those of every script (prelude.lua)
-- Since layout 2

local reply = { 'ok' }
for i, number in ipairs(call('HMGET', KEYS[1], unpack(ARGV, 3))) do
  local queue = tonumber(number)
  if queue and call('EXISTS', prefix .. 'ready:' .. queue) == 1 then reply[#reply + 1] = i - 1 end
end
return reply
