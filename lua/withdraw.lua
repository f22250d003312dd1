#!lua flags=allow-oom
-- withdraw: ends the registrations of a process with queues, and passes its doorbells on to other processes.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] waiter id of the process
-- ARGV[4] name   namespace/queue of the first queue. The names of the others follow
-- Returns ok
-- Changes: removes the registrations; for each queue with hints of ready jobs rings the next process that is registered
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include waiting

for i, number in ipairs(call('HMGET', KEYS[1], unpack(ARGV, 4))) do
  local name, queue = ARGV[i + 3], tonumber(number)
  unregister(name, ARGV[3])
  -- Also for lines that are held: another process may know of a higher limit.
  if queue and call('EXISTS', prefix .. 'ready:' .. queue, prefix .. 'turns:' .. queue) > 0 then ring_next(name) end
end
return { 'ok' }
