#!lua flags=no-writes
-- list_queues: shows the queues of a bucket with their counts, a bounded number per call.
-- KEYS[1] queues hash, queue name → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms, '' = Redis's clock
-- ARGV[3] after  queue number to go on behind, 0 = from the beginning
-- ARGV[4] limit  queue numbers that one call may look at
-- ARGV[5] hints  hints that one call may look at for the oldest ready job of each queue
-- Returns ok → queue number to go on behind or 0 if that was all; then for each queue its name, its jobs
--   delayed, ready, leased, dead, and for how many ms its oldest ready job has been ready, -1 = none found
-- Since layout 1

local after, limit, hints = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

-- Stale hints are left where they are: looking changes nothing.
local function oldest_ready_ms(queue)
  for _, number in ipairs(call('LRANGE', prefix .. 'ready:' .. queue, 0, hints - 1)) do
    local job = hinted(number, READY, queue)
    if job and not expired(job) then return max(0, now_ms - job.due_ms) end
  end
  return -1
end

local last = tonumber(call('HGET', KEYS[1], '#') or 0)
local stop = min(last, after + limit)
local reply = { 'ok', stop < last and stop or 0 }
for queue = after + 1, stop do
  local fields = call('HMGET', prefix .. 'q:' .. queue, 'name', unpack(STATES))
  -- Without a name it was forgotten.
  if fields[1] then
    reply[#reply + 1] = fields[1]
    -- A damaged count may be no number.
    for i = 1, #STATES do reply[#reply + 1] = tonumber(fields[i + 1]) or 0 end
    reply[#reply + 1] = oldest_ready_ms(queue)
  end
end
return reply
