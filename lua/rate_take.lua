#!lua flags=allow-oom
-- rate_take: takes units of a rate, each for one delivery, before the jobs are reserved.
-- KEYS[1] state   text: since used last from to, all in µs: when the bucket of units was full last; the time that the units
--                 taken since then need to come back; counted from then, when units were taken last, and the time that was
--                 charged to units given back last
-- ARGV[1] prefix  unused
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] jobs    units of a full bucket
-- ARGV[4] per_ms  the time in which an empty bucket fills, evenly
-- ARGV[5] wanted  units; 0 = only look
-- ARGV[6] latest  when the caller stops waiting for the reply, in ms; '' = unknown
-- Returns ok → now_ms, units taken, up to `wanted`; when there is a further unit, in ms, `now_ms` if there is one now;
--   when to ask for one, in ms, which is earlier if units that were just taken may be given back; the text with which
--   rate_give_back finds the units
-- Returns late → now_ms; nothing changed: the caller no longer waits, or the clock was set forward
-- Changes: the state and its TTL, if units are taken, or the state had more taken than the bucket has
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include prelude

-- The state is not needed once the bucket is full. The time is longer, since the clock may be set back.
local KEPT_MS = 60000

-- Sums of fractions may be less than whole units by less than this.
local ROUNDED_US = 1

-- Units that are given back were taken less than this before, except if Redis is slow.
local OUT_MS = 50

local jobs, per_us, wanted = tonumber(ARGV[3]), ARGV[4] * 1000, tonumber(ARGV[5])
local unit_us = per_us / jobs

-- A server that was paused executes calls that their callers have given up.
if ARGV[6] ~= '' and now_ms > tonumber(ARGV[6]) then return { 'late', now_ms } end

local state = call('GET', KEYS[1]) or ''
local since, used, last, from, to = string.match(state, '^(%d+) ([%d.]+) (-?%d+) ([%d.]+) ([%d.]+)$')
since, used = tonumber(since), tonumber(used)
local is_changed = false
if not since or since + used <= now_us then
  since, used, last, from, to = now_us, 0, 0, 0, 0
elseif since + used - per_us > now_us + ROUNDED_US then
  -- The clock was set back, or the rate was another one: all units are taken.
  since, used, last, from, to = now_us, per_us, 0, 0, 0
  is_changed = wanted > 0
end

local left = max(0, floor((now_us + per_us - since - used + ROUNDED_US) / unit_us))
local units = min(wanted, left)
used = used + units * unit_us
if units > 0 then last = now_us - since end
if units > 0 or is_changed then
  local left_ms = math.ceil((since + used - now_us) / 1000)
  call('SET', KEYS[1], text('%.0f %.3f %.0f %.3f %.3f', since, used, last, from, to), 'PX', text('%.0f', left_ms + KEPT_MS))
end
local next_ms = left > units and now_ms or math.ceil((since + used + unit_us - per_us) / 1000)
local again_ms = math.ceil((since + last) / 1000) + OUT_MS
if again_ms <= now_ms then again_ms = next_ms end
return { 'ok', now_ms, units, next_ms, min(next_ms, again_ms), text('%.0f %.0f', since, now_us - since) }
