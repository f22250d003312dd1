#!lua flags=allow-oom
-- lane_open: opens a lane in its bucket if it was closed with an earlier epoch.
-- KEYS[1] queues hash: namespace/queue → queue number, or "closed <epoch> <queue number>" if its lane is closed here
-- ARGV[1] prefix of the bucket's keys; unused
-- ARGV[2] now    ms; unused
-- ARGV[3] name   namespace/queue
-- ARGV[4] epoch  of the queue's row in tg:lanes
-- Returns ok → 0 = the lane is open; else the epoch, not earlier than this one, with which it stays closed
-- Changes: the lane's entry in queues
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include prelude

local name, epoch = ARGV[3], tonumber(ARGV[4])

local queue, closed_epoch = queue_in_bucket(call('HGET', KEYS[1], name))
if not closed_epoch then return { 'ok', 0 } end
if closed_epoch >= epoch then return { 'ok', closed_epoch } end
if queue == 0 then
  call('HDEL', KEYS[1], name)
else
  -- A queue with other lines than the first has its mark again.
  local mark = call('EXISTS', prefix .. 'turns:' .. text('%d', queue)) == 1 and '+' or ''
  call('HSET', KEYS[1], name, mark .. text('%d', queue))
end
return { 'ok', 0 }
