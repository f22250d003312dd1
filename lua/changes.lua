-- changes: shared by all scripts that change jobs; it follows the prelude. Such a script collects its changes and ends
-- with settle(), which writes them with as few commands as possible: a command costs more than the Lua around it.

-- Changes by queue number; by chunk: fields to set, fields to delete, earliest expiry; by far slot: hints to add.
local queues, written, deleted, expiries, slots = {}, {}, {}, {}, {}

-- Changes of a queue. [state]: difference of its count. Lists of job numbers: ready (at_head: pushed at the head),
-- dead, untimed (timers to delete). near: scores and numbers of timers to set; earliest_ms: the first of them.
-- arrivals: jobs published and deliveries taken back.
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

-- Moves a job to another state, and adds it to this list, if one is given. The caller writes the record.
local function turn(job, state, list)
  local changes = changes_of(job.queue)
  changes[job.state] = changes[job.state] - 1
  changes[state] = changes[state] + 1
  job.state = state
  if list then add(changes, list, job.number) end
  return changes
end

-- Schedules a record to be written. Payloads never change; they are written as they were read.
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

-- Deletes a job with its body and near timer. Its far hints and list entries stay; they are stale, and are dropped when
-- a call reads them.
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

-- The timer rule: a script that changes a due time adds a hint, to near if its slot may be loaded already, else to far.
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

-- Makes the sweep read the job's chunk at this time, or earlier.
local function expire_later(number, expires_ms)
  local chunk = sub(number, 1, -3)
  if expires_ms < (expiries[chunk] or math.huge) then expiries[chunk] = expires_ms end
end

-- Only a damaged record names a queue without a name. An error would fail the call for all other jobs too.
local function ring(of_queue)
  local name = call('HGET', of_queue, 'name')
  if name then call('SPUBLISH', prefix .. 'bell', name) end
end

-- Notifies the pump if at_ms is now the earliest time in the index of a verb. Message: verb, ms until then, and when it is
-- sent, since it may arrive late.
local function alarm(verb, index, at_ms)
  if at_ms < math.huge and tonumber(call('ZRANGE', prefix .. index, 0, 0, 'WITHSCORES')[2]) == at_ms then
    call('SPUBLISH', prefix .. 'alarm', text('%s %d %d', verb, max(0, at_ms - now_ms), now_ms))
  end
end

-- Calls a command with a list of values, several times if there are many. Returns the last reply.
local function send(command, key, values)
  local reply
  for first = 1, #values, VALUES_MAX do
    reply = call(command, key, unpack(values, first, min(first + VALUES_MAX - 1, #values)))
  end
  return reply
end

-- Adds to a numeric field of a queue; returns the sum. A damaged field that is not a number restarts from 0: an error
-- would end the call after its records were written.
local function count(of_queue, field, change)
  change = text('%d', change)
  local left = redis.pcall('HINCRBY', of_queue, field, change)
  if type(left) == 'number' then return left end
  call('HSET', of_queue, field, change)
  return tonumber(change)
end

-- Drops up to `most` stale hints at the head of a list. Each is compared with its record: a count may be wrong.
local function drop_stale(state, queue, most)
  local list = prefix .. STATES[state] .. ':' .. text('%d', queue)
  local numbers = call('LRANGE', list, 0, most - 1)
  local stale = 0
  while stale < #numbers and not hinted(numbers[stale + 1], state, queue) do stale = stale + 1 end
  if stale > 0 then call('LPOP', list, stale) end
end

-- Updates the counts of a queue; returns its count of ready jobs before, if that changes or jobs become ready.
local function settle_counts(queue, of_queue, changes)
  local STALE_MAX, ready_before = 256, nil
  for state = DELAYED, DEAD do
    local change = changes[state]
    if change ~= 0 or state == READY and changes.ready then
      local left = count(of_queue, STATES[state], change)
      if state == READY then ready_before = left - change end
      -- If the count is right, no job is left in the state, and all hints in its list are stale.
      if left <= 0 and change < 0 and (state == READY or state == DEAD) then drop_stale(state, queue, STALE_MAX) end
    end
  end
  if changes.arrivals then count(of_queue, 'arrivals', changes.arrivals) end
  return ready_before
end

-- Writes all collected changes; sends doorbells and alarms.
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
      -- Consumers may wait if no job was ready before. Both are checked: the list may hold stale hints, the count may
      -- be wrong.
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
