#!lua flags=no-writes
-- stats: returns the number of jobs of a queue by state.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- Returns ok → delayed, ready, leased, dead; all 0 if there is no such queue
-- Changes: nothing
-- Errors: the errors of every script (prelude.lua)
-- Since layout 2
--- include prelude

local name = ARGV[3]

local queue = tonumber(call('HGET', KEYS[1], name))
if not queue then return { 'ok', 0, 0, 0, 0, 0 } end
local reply = { 'ok' }
for i, jobs in ipairs(call('HMGET', prefix .. 'q:' .. queue, unpack(STATES))) do
  -- A damaged count may not be a number.
  reply[i + 1] = tonumber(jobs) or 0
end
return reply
