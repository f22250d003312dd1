-- changes: stands behind the prelude, before every script that changes jobs. What changes gathers, and settle() ends
-- such a script: it writes everything with few commands, as each costs more than the Lua around it.

-- What changes, by queue number; by chunk: fields to set, fields to delete, its earliest expiry; by far slot.
local queues, written, deleted, expiries, slots = {}, {}, {}, {}, {}

-- What changes in a queue: at the number of a state by how much its count does; lists under ready (to push, with
-- at_head: LPUSH), dead, near (timers to set) and untimed (timers to drop); the earliest timer that is set; arrivals:
-- jobs that were published and deliveries that were taken back.
local function changes_of(queue)
  local changes = queues[queue]
  if not changes then
    changes = { 0, 0, 0, 0 }
    queues[queue] = changes
  end
  return changes
end

local function add(lists, name, value)
  local list = lists[name]
  if list then list[#list + 1] = value else lists[name] = { value } end
end

-- A job goes to another state, and to the tail of this list, if any.
local function turn(job, state, list)
  local changes = changes_of(job.queue)
  changes[job.state] = changes[job.state] - 1
  changes[state] = changes[state] + 1
  job.state = state
  if list then add(changes, list, job.number) end
  return changes
end

-- Has a record written. Payloads are never changed, they are passed on as they were read.
local function write(number, record)
  local chunk = sub(number, 1, -3)
  local fields = written[chunk]
  if not fields then
    fields = {}
    written[chunk] = fields
  end
  local filled = #fields
  fields[filled + 1], fields[filled + 2] = sub(number, -2), record
end

local function rewrite(job)
  job.record = struct.pack(HEADER, VERSION, job.state, job.flags, job.tries, job.attempt, job.queue,
    job.created_ms, job.due_ms, job.expires_ms, job.nonce) .. sub(job.record, HEADER_BYTES + 1)
  write(job.number, job.record)
end

-- Deletes the job with all that belongs to it, except far hints and list entries: those are dropped
-- when they are touched.
local function delete(job)
  local number = job.number
  jobs[number] = false
  add(deleted, sub(number, 1, -3), sub(number, -2))
  if bit.band(job.flags, BODY_OUTSIDE) ~= 0 then call('DEL', prefix .. 'body:' .. number) end
  local changes = changes_of(job.queue)
  changes[job.state] = changes[job.state] - 1
  if (job.state == DELAYED or job.state == LEASED) and job.due_ms < near_until_ms then
    add(changes, 'untimed', number)
  end
  if job.expires_ms > 0 then
    local chunk = sub(number, 1, -3)
    expiries[chunk] = expiries[chunk] or false
  end
end

-- The timer rule: whoever changes when a job is due adds a hint, to near if its slot may be loaded already, else far.
local function hint(queue, number, due_ms)
  if due_ms >= near_until_ms then return add(slots, floor(due_ms / SLOT_MS), number) end
  local changes = changes_of(queue)
  local near = changes.near
  if not near then
    near = {}
    changes.near, changes.earliest_ms = near, due_ms
  end
  local filled = #near
  near[filled + 1], near[filled + 2] = text('%d', due_ms), number
  if due_ms < changes.earliest_ms then changes.earliest_ms = due_ms end
end

-- Registers when the sweep has to look at the job's chunk.
local function expire_later(number, expires_ms)
  local chunk = sub(number, 1, -3)
  if expires_ms < (expiries[chunk] or math.huge) then expiries[chunk] = expires_ms end
end

-- Only a damaged record names a queue that has no name: it must not end the call, which serves other jobs too.
local function ring(of_queue)
  local name = call('HGET', of_queue, 'name')
  if name then call('SPUBLISH', prefix .. 'bell', name) end
end

-- Tells the pump when a verb has work before all that it had: its index is scored by when it has work.
local function alarm(verb, index, at_ms)
  if at_ms < math.huge and tonumber(call('ZRANGE', prefix .. index, 0, 0, 'WITHSCORES')[2]) == at_ms then
    call('SPUBLISH', prefix .. 'alarm', verb .. ' ' .. max(0, at_ms - now_ms))
  end
end

-- Sends a command with a list of values, in several parts where they are many. Returns the last reply.
local function send(command, key, values)
  local reply
  for first = 1, #values, VALUES_MAX do
    reply = call(command, key, unpack(values, first, min(first + VALUES_MAX - 1, #values)))
  end
  return reply
end

-- Changes a number of a queue; returns the new one. A damaged one that is no number begins again: an error would end
-- the call after its records were written.
local function count(of_queue, field, change)
  change = text('%d', change)
  local left = redis.pcall('HINCRBY', of_queue, field, change)
  if type(left) == 'number' then return left end
  call('HSET', of_queue, field, change)
  return tonumber(change)
end

-- Drops stale hints at the head of a list, up to so many. Each is compared with its record: a count may be wrong.
local function drop_stale(state, queue, most)
  local list = prefix .. STATES[state] .. ':' .. text('%d', queue)
  local numbers = call('LRANGE', list, 0, most - 1)
  local stale = 0
  while stale < #numbers and not hinted(numbers[stale + 1], state, queue) do stale = stale + 1 end
  if stale > 0 then call('LPOP', list, stale) end
end

-- Changes the counts of a queue; returns how many jobs it counted as ready before, if jobs become ready.
local function settle_counts(queue, of_queue, changes)
  local STALE_MAX, ready_before = 256, nil
  for state = DELAYED, DEAD do
    local change = changes[state]
    if change ~= 0 or state == READY and changes.ready then
      local left = count(of_queue, STATES[state], change)
      if state == READY then ready_before = left - change end
      -- With no job left in that state the hints in its list are stale, if the count is right.
      if left <= 0 and change < 0 and (state == READY or state == DEAD) then drop_stale(state, queue, STALE_MAX) end
    end
  end
  if changes.arrivals then count(of_queue, 'arrivals', changes.arrivals) end
  return ready_before
end

-- Writes what has gathered, rings doorbells, raises alarms.
local function settle()
  local move_at_ms, load_at_ms, sweep_at_ms = math.huge, math.huge, math.huge
  for chunk, fields in pairs(written) do send('HSET', chunks .. chunk, fields) end
  for chunk, fields in pairs(deleted) do send('HDEL', chunks .. chunk, fields) end
  for number, changes in pairs(queues) do
    local queue = text('%d', number)
    local of_queue = prefix .. 'q:' .. queue
    local ready_before = settle_counts(number, of_queue, changes)
    if changes.dead then send('RPUSH', prefix .. 'dead:' .. queue, changes.dead) end
    local ready, near = changes.ready, changes.near
    if ready then
      local length = send(changes.at_head and 'LPUSH' or 'RPUSH', prefix .. 'ready:' .. queue, ready)
      -- Consumers may be waiting if nothing was ready. The list may have stale hints, and the count may be wrong.
      if length == #ready or ready_before <= 0 then ring(of_queue) end
    end
    if changes.untimed then send('ZREM', prefix .. 'near:' .. queue, changes.untimed) end
    if near then
      send('ZADD', prefix .. 'near:' .. queue, near)
      if call('ZADD', prefix .. 'due', 'LT', 'CH', text('%d', changes.earliest_ms), queue) == 1 then
        move_at_ms = min(move_at_ms, changes.earliest_ms)
      end
    end
  end
  for slot, numbers in pairs(slots) do
    local at_ms = slot * SLOT_MS - LEAD_MS
    slot = text('%d', slot)
    if send('RPUSH', prefix .. 'far:' .. slot, numbers) == #numbers then
      call('ZADD', prefix .. 'slots', text('%d', at_ms), slot)
      load_at_ms = min(load_at_ms, at_ms)
    end
  end
  for chunk, expires_ms in pairs(expiries) do
    if expires_ms then
      if call('ZADD', prefix .. 'expiry', 'LT', 'CH', text('%d', expires_ms), chunk) == 1 then
        sweep_at_ms = min(sweep_at_ms, expires_ms)
      end
    elseif call('EXISTS', chunks .. chunk) == 0 then
      call('ZREM', prefix .. 'expiry', chunk)
    end
  end
  alarm('move_due', 'due', move_at_ms)
  alarm('load_slot', 'slots', load_at_ms)
  alarm('sweep', 'expiry', sweep_at_ms)
end
