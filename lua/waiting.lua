-- waiting: shared by the scripts that register API processes with queues, and ring them; it follows versions.lua.
-- A process whose consumers wait for a queue has its id, of 8 bytes, in the entry of the queue: namespace/queue → ids in the
-- order in which they are rung. A doorbell takes the id away; the process registers again when it has found the queue empty.
-- An entry is in the hash of the current period or of the one before. Polls register again in each period, and a hash is
-- deleted two periods after its first entry, with the ids of processes that were killed.

local ID_BYTES, PERIOD_MS = 8, 3600000

-- The hash of this period, or of the one before (back = 1).
local function waiting_in(back)
  return prefix .. 'waiting:' .. text('%d', floor(now_ms / PERIOD_MS) - back)
end

-- Keeps the ids that are left of an entry.
local function keep_waiting(waiting, name, ids)
  if ids == '' then call('HDEL', waiting, name) else call('HSET', waiting, name, ids) end
end

-- The place of an id in an entry; nil if it has none there.
local function place_of(id, ids)
  local at = string.find(ids, id, 1, true)
  while at and (at - 1) % ID_BYTES > 0 do at = string.find(ids, id, at + 1, true) end
  return at
end

-- The most ids in an entry. Those before are most likely of processes that were killed; others register again by a poll.
local IDS_MAX = 1024

-- Registers a process with a queue, at the end, unless it is registered in this period.
local function register(name, id)
  local waiting = waiting_in(0)
  local ids = call('HGET', waiting, name) or ''
  if place_of(id, ids) then return end
  ids = sub(ids .. id, -ID_BYTES * IDS_MAX)
  if call('HSET', waiting, name, ids) == 1 and call('HLEN', waiting) == 1 then
    call('PEXPIRE', waiting, 2 * PERIOD_MS)
  end
end

-- Removes the registrations of a process with a queue.
local function unregister(name, id)
  for back = 0, 1 do
    local waiting = waiting_in(back)
    local ids = call('HGET', waiting, name)
    local at = ids and place_of(id, ids)
    if at then keep_waiting(waiting, name, sub(ids, 1, at - 1) .. sub(ids, at + ID_BYTES)) end
  end
end

-- Whether a process is registered with a queue.
local function is_waited_for(name)
  return call('HGET', waiting_in(0), name) or call('HGET', waiting_in(1), name)
end

-- Rings the process that is registered first and listens. No subscriber: it has ended or lost its connection, and checks its
-- queues when it has a new one.
local function ring_next(name)
  for back = 0, 1 do
    local waiting = waiting_in(back)
    local ids, at, is_rung = call('HGET', waiting, name), 1, false
    while ids and at < #ids and not is_rung do
      is_rung = call('SPUBLISH', prefix .. 'bell:' .. sub(ids, at, at + ID_BYTES - 1), name) > 0
      at = at + ID_BYTES
    end
    if ids then keep_waiting(waiting, name, sub(ids, at)) end
    if is_rung then return end
  end
end

-- A doorbell is lost with a process that is killed before it has followed it. After this time another process is rung.
local LOST_MS = 100

-- Whether the limit of running jobs holds back jobs of a queue with these fields. `held` is the limit that a reserve met, and
-- behind it when a process was rung since.
local function holds(held, leased)
  local limit = held and string.match(held, '^%d+')
  return limit and (tonumber(leased) or 0) >= tonumber(limit)
end

-- Rings the next process if leases of a queue have ended that has this in its field `held`. One is enough: if it leaves jobs
-- that may be leased, it rings another one. Its reserve writes the field again.
local function ring_held(queue, of_queue, held)
  local name, leased = unpack(call('HMGET', of_queue, 'name', STATES[LEASED]))
  if not name or holds(held, leased) or call('EXISTS', prefix .. 'ready:' .. queue) == 0 then return end
  local limit, rung_ms = string.match(held, '^(%d+) ?(%d*)$')
  if not limit or rung_ms ~= '' and math.abs(now_ms - rung_ms) < LOST_MS then return end
  call('HSET', of_queue, 'held', text('%s %d', limit, now_ms))
  ring_next(name)
end
