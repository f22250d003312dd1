#!lua flags=allow-oom
-- schedule_set: sets or removes the next tick of a schedule in the bucket of its queue.
-- KEYS[1] schedules sorted set: namespace → when a pump looks at its schedules, in ms; below 0: its turn, since it has a backlog
-- ARGV[1] prefix    of the bucket's keys
-- ARGV[2] now       ms; '' = Redis's clock
-- ARGV[3] namespace of the schedule
-- ARGV[4] schedule  its name
-- ARGV[5] revision  of its definition; '' = it is about to change: a pump looks at the definition in check_ms, unless it does
--   earlier; removed = there is none any more; deferred = a pump cannot handle it now, and
--   looks again in check_ms
-- ARGV[6] number    of the revision
-- ARGV[7] rule      what its ticks depend on, as text
-- ARGV[8] tick      ms; '' = it has none
-- ARGV[9] check_ms  see revision
-- ARGV[10] expected the revision that is known in the bucket ('' = none); '*' = any, unless it has a higher number
-- Returns ok → 1 if changed, 0 if another revision is known: nothing changed
-- Changes: with a revision, the next tick, the revision and the rule. A tick of the same rule stays: it may be due. A damaged one
--   does not. With '' or deferred, only when a pump looks at it; removed deletes all of it. Sends an alarm if a pump looks earlier
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include settle

local schedules, namespace, name, revision, number, rule, tick = KEYS[1], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), ARGV[7], ARGV[8]
local of_schedule, ticks = prefix .. 'sched:' .. namespace .. '/' .. name, prefix .. 'ticks:' .. namespace
-- A score holds integers of so many digits.
local TICK_DIGITS = 15

-- Sets when a pump looks at the namespace. One that is due keeps its turn.
local function set_due()
  local head_ms = call('ZRANGE', ticks, 0, 0, 'WITHSCORES')[2]
  if not head_ms then
    call('ZREM', schedules, namespace)
  elseif tonumber(head_ms) <= now_ms then
    call('ZADD', schedules, 'LT', max(0, head_ms), namespace)
  else
    call('ZADD', schedules, head_ms, namespace)
  end
  return { 'ok', 1 }
end

if revision == '' then
  local check_at_ms = now_ms + ARGV[9]
  -- A later tick must not keep a pump from a definition whose ticks are earlier.
  local is_earlier = call('ZADD', ticks, 'LT', 'CH', text('%d', check_at_ms), name) == 1
  set_due()
  if is_earlier then alarm('schedule_due', 'schedules', check_at_ms) end
  return { 'ok', 1 }
end
local known, known_number, known_rule, known_tick = unpack(call('HMGET', of_schedule, 'revision', 'number', 'rule', 'tick'))
if ARGV[10] == '*' then
  if known and (tonumber(known_number) or 0) > number then return { 'ok', 0 } end
elseif (known or '') ~= ARGV[10] then
  return { 'ok', 0 }
end
if revision == 'removed' then
  call('DEL', of_schedule)
  call('ZREM', ticks, name)
  return set_due()
end
if revision == 'deferred' then
  call('ZADD', ticks, 'XX', text('%d', now_ms + ARGV[9]), name)
  return set_due()
end
known_tick = known_tick or ''
local is_valid = known_tick == '' or string.match(known_tick, '^[1-9]%d*$') and #known_tick <= TICK_DIGITS
if known_rule == rule and is_valid then tick = known_tick else call('HDEL', of_schedule, 'tick') end
call('HSET', of_schedule, 'revision', revision, 'number', text('%d', number), 'rule', rule)
if tick == '' then
  call('ZREM', ticks, name)
else
  call('HSET', of_schedule, 'tick', tick)
  call('ZADD', ticks, tick, name)
end
set_due()
if tick ~= '' then alarm('schedule_due', 'schedules', tonumber(tick)) end
return { 'ok', 1 }
