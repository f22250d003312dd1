-- walks: for list_jobs: how a walk that continues finds its place.
--- include records

-- A list of which a call continues may have lost this many hints at its head, or got that many there, without a search.
local TAKEN, RETURNED = 1000, 200

-- Far slots whose names are read together. More than have the same score, which is one of each level.
local SLOTS_AHEAD = 32

-- The index behind an anchor: the last hint that was read, which had this index, with this hint before it. nil if it is not
-- found near there: then also the index from which the next call searches. Consumers take hints from the head, and give some
-- back there; stale ones are dropped. If the anchor was taken itself, so were all before it. Its job may have other hints
-- further on: the first one counts, and only behind the same hint. If the job has another due time it may have come back;
-- then it was taken, and the walk restarts if it may, or a respawn has crossed out its hint.
local function behind(list, index, number, due_ms, before, may_restart)
  local job, crossed_out = due_ms > 0 and read(number), '-' .. number
  local may_be_back = job and job[DUE_MS] ~= due_ms
  if may_be_back and may_restart then return 0 end
  local function search(from, to)
    local hints = call('LRANGE', list, from, to)
    for i, hint in ipairs(hints) do
      local is_behind = from + i == 1 or i > 1 and string.match(hints[i - 1], '%d+') == before
      if (hint == crossed_out or hint == number and not may_be_back) and is_behind then return from + i end
    end
  end
  local first = max(0, index - TAKEN)
  local found = search(max(0, index - 1), index) or search(max(0, first - 1), index + RETURNED)
  if found then return found end
  if first == 0 then return 0 end
  return nil, first
end

-- The far slots behind this one, or all, some at a time in the order in which they are loaded: hints move to slots that are
-- loaded later, or to near.
local function slots_behind(slot)
  local from, slots = '-inf', {}
  if slot then from = text('%.0f', load_at(tonumber(sub(slot, 1, 1)), tonumber(sub(slot, 3)))) end
  local found = call('ZRANGE', prefix .. 'slots', from, '+inf', 'BYSCORE', 'LIMIT', 0, SLOTS_AHEAD, 'WITHSCORES')
  for i = 1, #found, 2 do
    local is_behind = found[i + 1] ~= from or found[i] > slot
    if is_behind and string.match(found[i], '^[1-4]:%d+$') then slots[#slots + 1] = found[i] end
  end
  return slots
end
