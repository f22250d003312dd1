#!lua flags=allow-oom
-- load_slot: moves far hints whose slots begin soon into near, a bounded number per call.
-- KEYS[1] lock   the pump's token
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms, '' = Redis's clock
-- ARGV[3] token  of the pump
-- ARGV[4] limit  hints that one call may load
-- Returns ok → hints loaded, 1 if more are waiting else 0, ms until the next slot has to be loaded or -1
-- Returns lost → the caller does not lead the bucket; nothing changed
-- Since layout 1
-- Invariant: whoever sets a timer in a slot that may be loaded goes to near; a hint that is loaded later
-- than it should be only makes its job late by that much.

local token, limit = ARGV[3], tonumber(ARGV[4])

if redis.call('GET', KEYS[1]) ~= token then return { 'lost' } end

local function first_slot()
  local slot, at_ms = unpack(redis.call('ZRANGE', prefix .. 'slots', 0, 0, 'WITHSCORES'))
  return tonumber(slot), slot and math.max(0, at_ms - now_ms) or -1
end

local loaded = 0
local slot, wait_ms = first_slot()
while wait_ms == 0 and loaded < limit do
  local hints = redis.call('LPOP', prefix .. 'far:' .. slot, limit - loaded) or {}
  for _, far in ipairs(hints) do
    local number, offset = unpack_far(far)
    -- LT: a stale hint must not push back a timer that was set since. Early ones are put right when due.
    redis.call('ZADD', prefix .. 'near', 'LT', slot * SLOT_MS + offset, number)
  end
  loaded = loaded + #hints
  if redis.call('EXISTS', prefix .. 'far:' .. slot) == 1 then break end
  redis.call('ZREM', prefix .. 'slots', slot)
  slot, wait_ms = first_slot()
end
return { 'ok', loaded, wait_ms == 0 and 1 or 0, wait_ms }
