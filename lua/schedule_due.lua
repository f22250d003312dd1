#!lua flags=no-writes,allow-oom
-- schedule_due: returns the schedules of a bucket whose ticks are due, a bounded number per call.
-- KEYS[1] lock   token of the pump that leads the bucket
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] token  of the calling pump
-- ARGV[4] limit  most schedules that one call returns
-- Returns ok → now_ms, ms until a pump looks at the next schedule that is not due or -1, then for each schedule that is due: namespace/schedule,
--   the revision of its definition ('' = not known), its tick (ms; '' = not known)
-- Returns lost → the caller does not lead the bucket
-- Changes: nothing
-- Errors: those of every script (prelude.lua)
-- Since layout 2

if call('GET', KEYS[1]) ~= ARGV[3] then return { 'lost' } end

local schedules = prefix .. 'schedules'
local reply = { 'ok', now_ms, -1 }
local names = call('ZRANGE', schedules, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, ARGV[4])
for i = 1, #names do
  local revision, tick = unpack(call('HMGET', prefix .. 'sched:' .. names[i], 'revision', 'tick'))
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = names[i], revision or '', tick or ''
end
local later = call('ZRANGE', schedules, text('(%d', now_ms), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
if later then reply[3] = later - now_ms end
return reply
