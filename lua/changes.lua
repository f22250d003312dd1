-- changes: for all scripts that change jobs. Such a script collects its changes and ends
-- with settle(), which writes them with as few commands as possible: a command costs more than the Lua around it.
--- include records

-- Changes by queue number; by chunk: fields to set, fields to delete, earliest expiry; by far slot: hints to add, with
-- load_at_ms.
local queues, written, deleted, expiries, slots = {}, {}, {}, {}, nil
local stale_far = 0  -- far hints that have become stale, without those of leases, which are never far ahead

-- Changes of a queue. [state]: difference of its count. Lists of job numbers: ready (at_head: pushed at the head),
-- dead, untimed (timers to delete). near: scores and numbers of timers to set; earliest_ms: the first of them.
-- arrivals: jobs published and deliveries taken back. unlisted: ready or dead jobs were deleted.
local function changes_of(queue)
  local changes = queues[queue]
  if not changes then
    changes = { 0, 0, 0, 0, 0 }
    queues[queue] = changes
  end
  return changes
end

local function add(lists, name, value)
  local list = lists[name]
  if list then list[#list + 1] = value else lists[name] = { value } end
end

-- Moves a job to another state, and adds it to this list, if a list is given. The caller writes the record.
local function turn(job, state, list)
  local changes = changes_of(job[QUEUE])
  changes[job[STATE]] = changes[job[STATE]] - 1
  changes[state] = changes[state] + 1
  job[STATE] = state
  if list then add(changes, list, job[NUMBER]) end
  return changes
end

-- Schedules a record to be written.
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
  job[RECORD] = struct.pack(HEADER, unpack(job, LAYOUT, NONCE)) .. sub(job[RECORD], HEADER_BYTES + 1)
  write(job[NUMBER], job[RECORD])
end

-- Deletes the keys of a job that most jobs do not have, and the entry of its key in the index if this job has it.
local function delete_keys_of(job)
  local number = job[NUMBER]
  if has(job, BODY_OUTSIDE) then call('DEL', prefix .. 'body:' .. number) end
  if has(job, NEXT_WAITS) then call('DEL', prefix .. 'next:' .. number, prefix .. 'next_body:' .. number) end
  if has(job, LOGGED) then call('DEL', prefix .. 'log:' .. number) end
  local hash = key_hash(job[RECORD], job[FLAGS])
  if hash and call('HGET', key_index(hash), hash) == number then call('HDEL', key_index(hash), hash) end
end

-- Removes the timer that a job has for its due time. A far hint stays, and is stale. A long lease may have a near one.
local function drop_timer(job)
  if job[DUE_MS] < near_until_ms or job[STATE] == LEASED then
    add(changes_of(job[QUEUE]), 'untimed', job[NUMBER])
  else
    stale_far = stale_far + 1
  end
end

-- Notifies the clients that wait for the end of a job. AWAITED is the highest flag.
local function notify_end(job)
  call('SPUBLISH', prefix .. 'bell', '#' .. job[NUMBER])
end

-- Deletes a job with its other keys and its near timer. Its far hints and list entries stay; they are stale, and are
-- dropped when a call reads them.
local function delete(job)
  local number = job[NUMBER]
  jobs[number] = false
  if job[FLAGS] >= AWAITED and job[STATE] ~= DONE then rarely().notify_end(job) end
  add(deleted, sub(number, 1, -3), sub(number, -2))
  local changes = changes_of(job[QUEUE])
  changes[job[STATE]] = changes[job[STATE]] - 1
  if job[STATE] == READY or job[STATE] == DEAD then
    changes.unlisted = true
  elseif job[STATE] ~= DONE then
    drop_timer(job)
  end
  if job[FLAGS] ~= 0 and bit.band(job[FLAGS], EXTENDED + BODY_OUTSIDE + NEXT_WAITS + LOGGED) ~= 0 then rarely().delete_keys_of(job) end
  if job[EXPIRES_MS] > 0 then
    local chunk = sub(number, 1, -3)
    expiries[chunk] = expiries[chunk] or false
  end
end

-- Adds a hint to the slot of the lowest level that is not loaded yet and spans as little as possible: a slot of a higher
-- level is taken only for due times whose slot there is not loaded yet either.
local function hint_far(number, due_ms)
  local level = 1
  while WIDTHS[level + 1] and load_at(level + 1, floor(due_ms / WIDTHS[level + 1])) > now_ms do level = level + 1 end
  local slot = floor(due_ms / WIDTHS[level])
  slots = slots or {}
  local name = text('%d:%d', level, slot)
  local hints = slots[name]
  if not hints then
    hints = { load_at_ms = load_at(level, slot) }
    slots[name] = hints
  end
  hints[#hints + 1] = number
end

local function hint_near(queue, number, due_ms)
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

-- The timer rule: a script that changes a due time adds a hint, to near if its slot may be loaded already, else to far.
local function hint(queue, number, due_ms)
  if due_ms >= near_until_ms then return rarely().hint_far(number, due_ms) end
  hint_near(queue, number, due_ms)
end

-- How far ahead the hint of a lease may be. Most leases end early, by an ack, and their hints stay until they are loaded.
local LEASE_HINT_MS = 4 * SLOT_MS

-- Adds a hint for the due time of a job. The hint of a long lease is too early, and is set again when it comes up.
local function hint_for(job)
  hint(job[QUEUE], job[NUMBER], job[STATE] == LEASED and min(job[DUE_MS], now_ms + LEASE_HINT_MS) or job[DUE_MS])
end

-- The same for a job whose hint comes up, or is loaded. The hint of a lease stays near from then on: a walk through far
-- slots, and then near timers, would not meet a hint that goes back.
local function hint_again(job)
  if job[STATE] ~= LEASED then return hint_for(job) end
  hint_near(job[QUEUE], job[NUMBER], min(job[DUE_MS], now_ms + LEASE_HINT_MS))
end

-- Gives a delayed job another due time. Its hint is set again unless both are in the same far slot: a hint that is too
-- early would go back when it comes up. The caller writes the record.
local function postpone(job, due_ms)
  local was_ms = job[DUE_MS]
  local is_in_place = min(was_ms, due_ms) >= near_until_ms and floor(was_ms / SLOT_MS) == floor(due_ms / SLOT_MS)
  if due_ms ~= was_ms and not is_in_place then
    drop_timer(job)
    hint(job[QUEUE], job[NUMBER], due_ms)
  end
  job[DUE_MS] = due_ms
end

-- Makes the sweep read the job's chunk at this time, or earlier.
local function expire_later(number, expires_ms)
  local chunk = sub(number, 1, -3)
  if expires_ms < (expiries[chunk] or math.huge) then expiries[chunk] = expires_ms end
end

-- Makes a job ready, or delayed until a time in the future. The caller writes the record.
local function schedule(job, due_ms)
  if due_ms > now_ms then
    turn(job, DELAYED)
    job[DUE_MS] = due_ms
    hint(job[QUEUE], job[NUMBER], due_ms)
  else
    turn(job, READY, 'ready')
    job[DUE_MS] = now_ms
  end
end

-- Makes a job dead. The caller writes the record.
local function bury(job)
  turn(job, DEAD, 'dead')
  job[DUE_MS], job[EXPIRES_MS] = now_ms, 0
  if job[FLAGS] >= AWAITED then
    rarely().notify_end(job)
    job[FLAGS] = job[FLAGS] - AWAITED
  end
end

-- Keeps a job that was leased for a while as done, with its result ('' = none) in place of its payload.
local function keep_done(job, for_ms, result)
  local extension = has(job, EXTENDED) and 1 + string.byte(job[RECORD], HEADER_BYTES + 1) or 0
  local body = prefix .. 'body:' .. job[NUMBER]
  if result ~= '' then call('SET', body, result) elseif has(job, BODY_OUTSIDE) then call('DEL', body) end
  if job[FLAGS] >= AWAITED then rarely().notify_end(job) end
  drop_timer(job)
  turn(job, DONE)
  job[FLAGS] = bit.band(job[FLAGS], 255 + LOGGED + AWAITED) + (result ~= '' and BODY_OUTSIDE or 0)
  job[RECORD], job[DUE_MS], job[EXPIRES_MS] = sub(job[RECORD], 1, HEADER_BYTES + extension), now_ms, from_ms + for_ms
  expire_later(job[NUMBER], job[EXPIRES_MS])
  rewrite(job)
end
