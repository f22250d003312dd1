#!lua flags=allow-oom
-- load_slot: moves far hints whose slots begin soon into near, a bounded number per call.
-- KEYS[1] lock    the pump's token
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms, '' = Redis's clock
-- ARGV[3] token   of the pump
-- ARGV[4] lead_ms how long before its beginning a slot is loaded
-- ARGV[5] limit   hints that one call may load
-- Returns ok → hints loaded, 1 if more are waiting else 0, ms until the next slot has to be loaded
-- Returns lost → the caller does not lead the bucket; nothing changed
-- Since layout 1
-- Invariant: the edge moves first, so whoever sets a timer meanwhile goes to near; a hint that is
-- loaded later than it should be only makes its job late by that much.

local token, lead_ms, limit = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

if redis.call('GET', KEYS[1]) ~= token then return { 'lost' } end

local old_edge = tonumber(redis.call('GET', prefix .. 'edge') or 0)
local new_edge = math.max(old_edge, math.floor((now_ms + lead_ms) / SLOT_MS) + 1)
if new_edge > old_edge then redis.call('SET', prefix .. 'edge', new_edge) end

local function first_slot()
  return redis.call('ZRANGE', prefix .. 'slots', '-inf', '(' .. new_edge, 'BYSCORE', 'LIMIT', 0, 1)[1]
end

local loaded = 0
local slot = first_slot()
while slot and loaded < limit do
  local hints = redis.call('LPOP', prefix .. 'far:' .. slot, limit - loaded) or {}
  for _, far in ipairs(hints) do
    local number, offset = unpack_far(far)
    -- LT: a stale hint must not push back a timer that was set since. Early ones are put right when due.
    redis.call('ZADD', prefix .. 'near', 'LT', slot * SLOT_MS + offset, number)
  end
  loaded = loaded + #hints
  if redis.call('EXISTS', prefix .. 'far:' .. slot) == 1 then break end
  redis.call('ZREM', prefix .. 'slots', slot)
  slot = first_slot()
end
return { 'ok', loaded, slot and 1 or 0, math.max(0, new_edge * SLOT_MS - lead_ms - now_ms) }
