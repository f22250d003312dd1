-- waiting: for scripts that register API processes with queues, and ring them.
-- A process whose consumers wait for a queue has its id, of 8 bytes, in the entry of the queue: namespace/queue → ids in the
-- order in which they are rung. A doorbell takes the id away; the process registers again when it has found the queue empty.
-- An entry is in the hash of the current period or of the one before. Polls register again in each period, and a hash is
-- deleted two periods after its first entry, with the ids of processes that were killed.
--- include lines

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

-- The most queues with registrations in a bucket. Clients may wait for any names, also at maxmemory. The polls of the
-- processes find the jobs of the others.
local QUEUES_MAX = 4096

-- Registers a process with a queue, at the end, unless it is registered in this period.
local function register(name, id)
  local waiting = waiting_in(0)
  local ids = call('HGET', waiting, name) or ''
  if place_of(id, ids) then return end
  if ids == '' and call('HLEN', waiting) >= QUEUES_MAX then return end
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

-- Whether a queue with these fields has as many leased jobs as its limit allows. `at_limit` is the limit with which a reserve
-- has left ready jobs, and behind it when a process was rung since.
local function is_at_limit(at_limit, leased)
  local limit = at_limit and string.match(at_limit, '^%d+')
  return limit and leased_in(leased) >= tonumber(limit)
end

-- Whether a process was rung a moment ago, so that it may still take the jobs that a limit has held back.
local function was_rung(at_limit)
  local rung_ms = at_limit and string.match(at_limit, '^%d+ (%d+)$')
  return rung_ms and math.abs(now_ms - rung_ms) < LOST_MS
end

-- Rings the next process if leases of a queue have ended that has this in its field `at_limit`. One is enough: if it leaves
-- jobs that may be leased, it rings another one. Its reserve writes the field again.
local function ring_at_limit(queue, of_queue, at_limit)
  local name, leased = unpack(call('HMGET', of_queue, 'name', STATES[LEASED]))
  local limit = string.match(at_limit, '^%d+')
  if not name or not limit or is_at_limit(at_limit, leased) or was_rung(at_limit) then return end
  if not has_hints(queue, call('HGET', of_queue, 'held_for')) then return end
  call('HSET', of_queue, 'at_limit', text('%s %d', limit, now_ms))
  ring_next(name)
end
