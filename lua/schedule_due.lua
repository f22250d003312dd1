#!lua flags=no-writes,allow-oom
-- schedule_due: returns the schedules of a bucket whose ticks are due, a bounded number per call.
-- KEYS[1] lock   token of the pump that leads the bucket
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] token  of the calling pump
-- ARGV[4] limit  most schedules that one call returns
-- Returns ok → now_ms, ms until a pump looks at the next namespace that is not due or -1, then for each schedule that is due: its namespace,
--   its name ('' = the namespace has none), the revision of its definition ('' = not known), its tick (ms; '' = not known)
-- Returns lost → the caller does not lead the bucket
-- Changes: nothing
-- Errors: the errors of every script (prelude.lua)
-- Since layout 2
--- include prelude

local limit = tonumber(ARGV[4])

if call('GET', KEYS[1]) ~= ARGV[3] then return { 'lost' } end

-- Namespaces that one call serves. With fewer, many small ones need many calls; with more, each has a small share.
local NAMESPACES = 16
local schedules = prefix .. 'schedules'
local _, next_ms = due_and_next(schedules)
local reply = { 'ok', now_ms, next_ms and max(0, next_ms - now_ms) or -1 }

local function report(namespace, name)
  local revision, tick = unpack(call('HMGET', prefix .. 'sched:' .. namespace .. '/' .. name, 'revision', 'tick'))
  local filled = #reply
  reply[filled + 1], reply[filled + 2], reply[filled + 3], reply[filled + 4] = namespace, name, revision or '', tick or ''
end

-- Each namespace has an equal share of the limit, and in it each schedule one tick.
local namespaces = members_due(schedules, min(NAMESPACES, limit))
for i = 1, #namespaces do
  local namespace = namespaces[i]
  local names = members_due(prefix .. 'ticks:' .. namespace, math.ceil(limit / (#namespaces - i + 1)))
  -- An entry of the index that is too early is looked at, and so corrected.
  if #names == 0 then names = { '' } end
  for place = 1, #names do report(namespace, names[place]) end
  limit = limit - #names
end
return reply
