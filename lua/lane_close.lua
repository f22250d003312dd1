#!lua flags=allow-oom
-- lane_close: closes a lane in its bucket if it holds no job; publishes to it are refused from then on.
-- KEYS[1] queues hash: namespace/queue → queue number, or "closed <epoch> <queue number>" if its lane is closed here
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; unused
-- ARGV[3] name   namespace/queue
-- ARGV[4] epoch  of the queue's row in tg:lanes
-- ARGV[5] limit  most hints of each kind that one call reads
-- Returns ok → 1 = the lane is closed; 0 = it holds a job, by its counts or hints, or more hints than one call reads
-- Changes: the lane's entry in queues; drops stale hints of ready and dead jobs
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include lines

local name, epoch, limit = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

-- Counts may be wrong, so counts of 0 do not prove that the lane is empty. A hint whose record agrees is a job.
local function holds_jobs(queue)
  for _, jobs in ipairs(call('HMGET', prefix .. 'q:' .. queue, unpack(STATES))) do
    if tonumber(jobs or 0) ~= 0 then return true end
  end
  drop_stale_ready(queue, limit, limit)
  drop_stale(DEAD, queue, limit)
  if call('EXISTS', prefix .. 'ready:' .. queue, prefix .. 'turns:' .. queue, prefix .. 'dead:' .. queue) > 0 then return true end
  local timers = call('ZRANGE', prefix .. 'near:' .. queue, 0, limit)
  for _, number in ipairs(timers) do
    if hinted(number, DELAYED, queue) or hinted(number, LEASED, queue) then return true end
  end
  -- If there are too many far hints to read, the counts decide: a lane must close in a bucket with many timers too.
  return #timers > limit or (far_jobs(queue))
end

local queue, closed_epoch = queue_in_bucket(call('HGET', KEYS[1], name))
if not closed_epoch and queue > 0 and holds_jobs(queue) then return { 'ok', 0 } end
-- The later of two epochs stays: a delayed lane_open with an epoch in between may still arrive.
call('HSET', KEYS[1], name, text('closed %.0f %d', max(epoch, closed_epoch or 0), queue))
return { 'ok', 1 }
