#!lua flags=no-writes
-- list_queues: lists the queues of a bucket with their counts, a bounded number per call.
-- KEYS[1] queues hash: namespace/queue → queue number; field # = the last queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] after  queue number to continue after; 0 = from the beginning
-- ARGV[4] limit  most queue numbers that one call reads
-- ARGV[5] hints  most hints that one call reads per queue to find its oldest ready job
-- Returns ok → queue number to continue after, 0 = the list is complete; for how long the earliest timer of these queues
--   or, at the beginning, the loading of the earliest far slot, is overdue, in ms; then for each queue its name, its number
--   of jobs delayed, ready, leased, dead, and since when its oldest ready job is ready, as an age in ms; -1 = none found
-- Changes: nothing
-- Errors: those of every script (prelude.lua)
-- Since layout 1

local after, limit, hints = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

-- Stale hints stay in the list: this script does not write.
local function oldest_ready_ms(queue)
  for _, number in ipairs(call('LRANGE', prefix .. 'ready:' .. queue, 0, hints - 1)) do
    local job = hinted(number, READY, queue)
    if job and not expired(job) then return max(0, now_ms - job.due_ms) end
  end
  return -1
end

-- The time since the lowest score of a sorted set; 0 if it is empty, or in the future.
local function overdue_ms(key)
  local first = call('ZRANGE', prefix .. key, 0, 0, 'WITHSCORES')
  return first[2] and max(0, now_ms - tonumber(first[2])) or 0
end

local last = tonumber(call('HGET', KEYS[1], '#') or 0)
local stop = min(last, after + limit)
local reply = { 'ok', stop < last and stop or 0, after == 0 and overdue_ms('slots') or 0 }
for queue = after + 1, stop do
  local fields = call('HMGET', prefix .. 'q:' .. queue, 'name', unpack(STATES))
  -- A queue without a name was forgotten.
  if fields[1] then
    reply[#reply + 1] = fields[1]
    -- A damaged count may not be a number.
    for i = 1, #STATES do reply[#reply + 1] = tonumber(fields[i + 1]) or 0 end
    reply[#reply + 1] = oldest_ready_ms(queue)
    reply[3] = max(reply[3], overdue_ms('near:' .. queue))
  end
end
return reply
