-- settle: for all scripts that change jobs. Writes what a call has collected, and notifies.
--- include changes, waiting, lines, groups

-- Only a damaged record names a queue without a name. An error would fail the call for all other jobs too.
local function ring(of_queue)
  local name = call('HGET', of_queue, 'name')
  if name then ring_next(name) end
end

-- Whether a doorbell was lost is checked below this number of ready jobs, and then each time that many have come.
local CHECKED = 64

-- Jobs that come later ring the next process if the oldest job of their line has been ready for too long, unless it is held
-- back.
local function ring_if_lost(queue, of_queue, changes)
  local name, at_limit, leased = unpack(call('HMGET', of_queue, 'name', 'at_limit', STATES[LEASED]))
  if not name or is_at_limit(at_limit, leased) or was_rung(at_limit) or not is_waited_for(name) then return end
  local line = changes.ready and '' or rarely().first_not_held(queue, changes.lines)
  if not line then return end
  local oldest = hinted(call('LINDEX', prefix .. 'ready:' .. text('%d', queue) .. line, 0), READY, queue, line)
  if not oldest or now_ms - oldest[DUE_MS] >= LOST_MS then ring_next(name) end
end

-- Notifies the pump if at_ms is now the earliest time in the index of a verb. Turns of backlogs, below 0, are no times; what
-- is due already is part of a backlog, which later work does not wait for. Message: verb, ms until then, and when it is
-- sent, since it may arrive late.
local function alarm(verb, index, at_ms)
  local from = at_ms > now_ms and text('(%d', now_ms) or 0
  local first = call('ZRANGE', prefix .. index, from, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
  if tonumber(first[2]) == at_ms then
    call('SPUBLISH', prefix .. 'alarm', text('%s %d %d', verb, max(0, at_ms - now_ms), now_ms))
  end
end

-- Makes the sweep clean up this item then, unless it will do so already.
local function clean_up_later(item, at_ms)
  if call('ZADD', prefix .. 'cleanup', 'NX', text('%d', at_ms), item) == 1 then alarm('sweep', 'cleanup', at_ms) end
end

-- Gives a queue that does not exist in the bucket a number there.
local function add_queue(queue_numbers, name)
  local queue = call('HINCRBY', queue_numbers, '#', 1)
  call('HSET', queue_numbers, name, queue)
  count(queue_numbers, count_field(name), 1)
  call('HSET', prefix .. 'q:' .. queue, 'name', name)
  clean_up_later(text('b%d', queue / QUEUES_PER_BLOCK), now_ms + IDLE_MS)
  return queue
end

-- Stale hints stay while there are at most this many, or fewer than live ones.
local STALE_MAX = 1000

-- Stale hints behind a live one would stay until that is taken. Once most hints of a list are stale the sweep drops them.
-- Of ready jobs the live ones of all lines are counted.
local function bound_stale_listed(queue, of_queue, lines)
  local function bound(state, item, line)
    local live = tonumber(call('HGET', of_queue, STATES[state])) or 0
    if call('LLEN', prefix .. STATES[state] .. ':' .. queue .. line) > 2 * max(0, live) + STALE_MAX then
      clean_up_later(item .. queue .. line, now_ms)
    end
  end
  bound(READY, 'r', '')
  bound(DEAD, 'd', '')
  for line in pairs(lines or {}) do bound(READY, 'r', line) end
end

-- The sweep finds out whether most far hints are stale.
local function bound_stale_far()
  local stale = count(prefix .. 'stale', 'far', stale_far)
  if floor(stale / STALE_MAX) > floor((stale - stale_far) / STALE_MAX) then clean_up_later('f', now_ms) end
end

-- Updates the counts of a queue; returns its count of ready jobs before, if that changes or jobs become ready.
local function settle_counts(queue, of_queue, changes)
  local STALE_HEAD_MAX, STALE_LINES, ready_before = 256, 16, nil
  for state = DELAYED, DONE do
    local change = changes[state]
    if change ~= 0 or state == READY and (changes.ready or changes.lines) then
      local left = count(of_queue, STATES[state], change)
      if state == READY then ready_before = left - change end
      -- If the count is right, no job is left in the state, and all hints in its lists are stale.
      if left <= 0 and change < 0 then
        local number = text('%d', queue)
        if state == READY and call('EXISTS', prefix .. 'ready:' .. number, prefix .. 'turns:' .. number) > 0 then
          rarely().drop_stale_ready(queue, STALE_HEAD_MAX, STALE_LINES)
        elseif state == DEAD and call('EXISTS', prefix .. 'dead:' .. number) == 1 then
          rarely().drop_stale(DEAD, queue, STALE_HEAD_MAX)
        end
      end
    end
  end
  if changes.arrivals then count(of_queue, 'arrivals', changes.arrivals) end
  return ready_before
end

-- Writes the collected records.
local function settle_records()
  for chunk, fields in pairs(written) do send('HSET', chunks .. chunk, fields) end
  written = {}
end

-- Counts hints that were taken from the head of a far slot: a walk through it finds its place by their number. Returns
-- whether hints are left.
local function taken_from(slot, hints)
  local field = 'taken:' .. slot
  if call('EXISTS', prefix .. 'far:' .. slot) == 1 then return count(prefix .. 'stale', field, hints) end
  call('HDEL', prefix .. 'stale', field)
end

-- Writes the collected far hints.
local function settle_far()
  local load_at_ms
  for slot, hints in pairs(slots) do
    if send('RPUSH', prefix .. 'far:' .. slot, hints) == #hints then
      call('ZADD', prefix .. 'slots', text('%d', hints.load_at_ms), slot)
      load_at_ms = min(load_at_ms or hints.load_at_ms, hints.load_at_ms)
    end
  end
  if load_at_ms then alarm('load_slot', 'slots', load_at_ms) end
end

-- Writes when chunks are to be read for expired jobs.
local function settle_expiries()
  local sweep_at_ms
  for chunk, expires_ms in pairs(expiries) do
    if expires_ms then
      if call('ZADD', prefix .. 'expiry', 'LT', 'CH', text('%d', expires_ms), chunk) == 1 then
        sweep_at_ms = min(sweep_at_ms or expires_ms, expires_ms)
      end
    elseif call('EXISTS', chunks .. chunk) == 0 then
      call('ZREM', prefix .. 'expiry', chunk)
    end
  end
  if sweep_at_ms then alarm('sweep', 'expiry', sweep_at_ms) end
end

-- Writes all collected changes; sends doorbells and alarms.
local function settle()
  local move_at_ms
  settle_records()
  for chunk, fields in pairs(deleted) do send('HDEL', chunks .. chunk, fields) end
  for number, changes in pairs(queues) do
    local queue = text('%d', number)
    local of_queue = prefix .. 'q:' .. queue
    local ready_before = settle_counts(number, of_queue, changes)
    if changes.dead then send('RPUSH', prefix .. 'dead:' .. queue, changes.dead) end
    local ready, near = changes.ready, changes.near
    local at_limit = changes[LEASED] < 0 and call('HGET', of_queue, 'at_limit')
    local was_empty = changes.lines and rarely().push_lines(number, of_queue, changes)
    local is_back = changes.groups and rarely().settle_groups(queue, changes.groups)
    if ready then
      local list = prefix .. 'ready:' .. queue
      was_empty = send(changes.at_head and 'LPUSH' or 'RPUSH', list, ready) == #ready or was_empty
    end
    if ready or changes.lines or is_back then
      -- Consumers may wait if no job was ready before. Both are checked: the list may hold stale hints, the count may be wrong.
      if was_empty or is_back or ready_before <= 0 then
        ring(of_queue)
        at_limit = false
      elseif not at_limit and (ready_before < CHECKED or ready_before % CHECKED + max(1, changes[READY]) >= CHECKED) then
        rarely().ring_if_lost(number, of_queue, changes)
      end
    end
    if at_limit then rarely().ring_at_limit(queue, of_queue, at_limit) end
    if changes.unlisted then rarely().bound_stale_listed(queue, of_queue, changes.unlisted_lines) end
    if changes.untimed then send('ZREM', prefix .. 'near:' .. queue, changes.untimed) end
    if near then
      send('ZADD', prefix .. 'near:' .. queue, near)
      if call('ZADD', prefix .. 'due', 'LT', 'CH', text('%d', changes.earliest_ms), queue) == 1 then
        move_at_ms = min(move_at_ms or changes.earliest_ms, changes.earliest_ms)
      end
    end
  end
  if slots then rarely().settle_far() end
  if next(expiries) then settle_expiries() end
  if stale_far > 0 then rarely().bound_stale_far() end
  if move_at_ms then alarm('move_due', 'due', move_at_ms) end
end
