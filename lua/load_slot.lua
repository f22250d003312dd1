#!lua flags=allow-oom
-- load_slot: moves far hints of slots that begin soon to slots of lower levels or to near, a bounded number per call.
-- KEYS[1] lock   token of the pump that leads the bucket
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] token  of the calling pump
-- ARGV[4] limit  most hints that one call takes
-- Returns ok → number of jobs whose hints were moved, 1 if more hints are to be loaded (call again) else 0, ms until
--   the next slot is to be loaded or -1, ms until the next tick of a schedule or -1
-- Returns lost → the caller does not lead the bucket; nothing changed
-- Changes: moves hints; drops hints whose job is gone, or neither delayed nor leased; sends alarms. If the clock was set back behind
--   ticks that have run, all ticks are due now and not known
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
-- Invariant: a timer in a slot that may have been loaded is always set in near. A hint that is loaded late makes its
--   job late, and has no other effect.
--- include records, changes, transitions, settle

local token, limit = ARGV[3], tonumber(ARGV[4])

if call('GET', KEYS[1]) ~= token then return { 'lost' } end

local function first_slot()
  local slot, at_ms = unpack(call('ZRANGE', prefix .. 'slots', 0, 0, 'WITHSCORES'))
  return slot, slot and max(0, at_ms - now_ms) or -1
end

local loaded, has_hint = 0, {}

-- A job whose timer was set several times has several far hints. It gets one hint.
local function load(numbers)
  read_ahead(numbers)
  for i = 1, #numbers do
    local number = numbers[i]
    local job = read(number)
    if job and (job[STATE] == DELAYED or job[STATE] == LEASED) and not has_hint[number] then
      has_hint[number] = true
      hint_again(job)
      loaded = loaded + 1
    end
  end
end

local slot, wait_ms = first_slot()
if wait_ms == 0 then
  while wait_ms == 0 and limit > 0 do
    local far = prefix .. 'far:' .. slot
    local numbers = call('LPOP', far, limit) or {}
    load(numbers)
    limit = limit - #numbers
    if taken_from(slot, #numbers) then break end
    call('ZREM', prefix .. 'slots', slot)
    slot, wait_ms = first_slot()
  end
  settle()
  -- Hints may have gone to a slot that is loaded earlier than those before the call.
  slot, wait_ms = first_slot()
end

local schedules, stale = prefix .. 'schedules', prefix .. 'stale'
-- A clock that goes slightly back at a failover does no harm.
local SET_BACK_MS = 10000

-- The ticks of a bucket that has published ticks at a time that is still to come: its clock was set back. A pump looks at all
-- that are later now, and calculates them again.
local function restart_ticks()
  local now = text('%d', now_ms)
  for _, namespace in ipairs(call('ZRANGE', schedules, 0, -1)) do
    local ticks = prefix .. 'ticks:' .. namespace
    for _, name in ipairs(call('ZRANGE', ticks, '(' .. now, '+inf', 'BYSCORE')) do
      call('HDEL', prefix .. 'sched:' .. namespace .. '/' .. name, 'tick', 'rule')
      call('ZADD', ticks, now, name)
    end
    call('ZADD', schedules, 'LT', now, namespace)
  end
  call('HDEL', stale, 'ticked')
end

local tick_ms = call('ZRANGE', schedules, 0, 0, 'WITHSCORES')[2]
local ticked_ms = tick_ms and tonumber(call('HGET', stale, 'ticked'))
if ticked_ms and ticked_ms > now_ms + SET_BACK_MS then
  restart_ticks()
  tick_ms = now_ms
end
return { 'ok', loaded, wait_ms == 0 and 1 or 0, wait_ms, tick_ms and max(0, tick_ms - now_ms) or -1 }
