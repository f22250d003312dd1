#!lua flags=allow-oom
-- schedule_set: sets or removes the next tick of a schedule in the bucket of its queue.
-- KEYS[1] schedules sorted set: namespace/schedule → when a pump looks at it, in ms: at its next tick, or earlier or later, see revision
-- ARGV[1] prefix   of the bucket's keys
-- ARGV[2] now      ms; '' = Redis's clock
-- ARGV[3] schedule namespace/schedule
-- ARGV[4] revision of its definition; '' = it is about to change: a pump looks at the definition in check_ms, unless it does
--   earlier; removed = there is none any more; deferred = a pump cannot handle it now, and
--   looks again in check_ms
-- ARGV[5] number   of the revision
-- ARGV[6] rule     what its ticks depend on, as text
-- ARGV[7] tick     ms; '' = it has none
-- ARGV[8] check_ms see revision
-- ARGV[9] expected the revision that is known in the bucket ('' = none); '*' = any, unless it has a higher number
-- Returns ok → 1 if changed, 0 if another revision is known: nothing changed
-- Changes: with a revision, the next tick, the revision and the rule. A tick of the same rule stays: it may be due. A damaged one
--   does not. With '' or deferred, only when a pump looks at it; removed deletes all of it. Sends an alarm if a pump looks earlier
-- Errors: those of scripts that write (prelude.lua)
-- Since layout 2

local schedules, name, revision, number, rule, tick = KEYS[1], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]
local of_schedule = prefix .. 'sched:' .. name
-- A score holds integers of so many digits.
local TICK_DIGITS = 15

if revision == '' then
  local check_at_ms = now_ms + ARGV[8]
  -- A later tick must not keep a pump from a definition whose ticks are earlier.
  if call('ZADD', schedules, 'LT', 'CH', text('%d', check_at_ms), name) == 1 then alarm('schedule_due', 'schedules', check_at_ms) end
  return { 'ok', 1 }
end
local known, known_number, known_rule, known_tick = unpack(call('HMGET', of_schedule, 'revision', 'number', 'rule', 'tick'))
if ARGV[9] == '*' then
  if known and (tonumber(known_number) or 0) > number then return { 'ok', 0 } end
elseif (known or '') ~= ARGV[9] then
  return { 'ok', 0 }
end
if revision == 'removed' then
  call('DEL', of_schedule)
  call('ZREM', schedules, name)
  return { 'ok', 1 }
end
if revision == 'deferred' then
  call('ZADD', schedules, 'XX', text('%d', now_ms + ARGV[8]), name)
  return { 'ok', 1 }
end
known_tick = known_tick or ''
local is_valid = known_tick == '' or string.match(known_tick, '^[1-9]%d*$') and #known_tick <= TICK_DIGITS
if known_rule == rule and is_valid then tick = known_tick else call('HDEL', of_schedule, 'tick') end
call('HSET', of_schedule, 'revision', revision, 'number', text('%d', number), 'rule', rule)
if tick == '' then
  call('ZREM', schedules, name)
else
  call('HSET', of_schedule, 'tick', tick)
  call('ZADD', schedules, tick, name)
  alarm('schedule_due', 'schedules', tonumber(tick))
end
return { 'ok', 1 }
