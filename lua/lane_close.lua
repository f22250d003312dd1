#!lua flags=allow-oom
-- lane_close: closes a lane in its bucket if it holds no job; publishes to it are refused from then on.
-- KEYS[1] queues hash, queue name → queue number, or that its lane is closed here
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms, unused
-- ARGV[3] name   namespace/queue
-- ARGV[4] epoch  of the queue's row in tg:lanes
-- ARGV[5] limit  hints of each kind that one call may look at
-- Returns ok → 1 if the lane is closed; 0 if it holds a job, or more stale hints than one call looks at
-- Since layout 1

local name, epoch, limit = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

-- A count may be wrong, so it cannot prove that there is no job: a hint that its record agrees with is one.
local function holds_jobs(queue)
  for _, jobs in ipairs(call('HMGET', prefix .. 'q:' .. queue, unpack(STATES))) do
    if tonumber(jobs or 0) ~= 0 then return true end
  end
  for _, state in ipairs({ READY, DEAD }) do
    local list = prefix .. STATES[state] .. ':' .. queue
    local numbers = call('LRANGE', list, 0, limit - 1)
    read_ahead(numbers)
    for _, number in ipairs(numbers) do
      if hinted(number, state, queue) then return true end
    end
    if #numbers > 0 then call('LPOP', list, #numbers) end
    if call('EXISTS', list) == 1 then return true end
  end
  local timers = call('ZRANGE', prefix .. 'near:' .. queue, 0, limit)
  for _, number in ipairs(timers) do
    if hinted(number, DELAYED, queue) or hinted(number, LEASED, queue) then return true end
  end
  -- If there are too many far hints to look at, the counts decide: a lane must close in a bucket with many timers.
  return #timers > limit or (far_jobs(queue))
end

local queue, closed_epoch = queue_in_bucket(call('HGET', KEYS[1], name))
if not closed_epoch and queue > 0 and holds_jobs(queue) then return { 'ok', 0 } end
-- The later of two epochs stays: a lane_open with one in between may still arrive.
call('HSET', KEYS[1], name, text('closed %.0f %d', max(epoch, closed_epoch or 0), queue))
return { 'ok', 1 }
