-- changes: for all scripts that change jobs. Such a script collects its changes and ends
-- with settle(), which writes them with as few commands as possible: a command costs more than the Lua around it.
--- include records

-- Changes by queue number; by chunk: fields to set, fields to delete, earliest expiry; by far slot: hints to add, with
-- load_at_ms.
local queues, written, deleted, expiries, slots = {}, {}, {}, {}, nil
local stale_far = 0  -- far hints that have become stale, without those of leases, which are never far ahead

-- Changes of a queue. [state]: difference of its count. Lists of job numbers: ready (at_head: pushed at the head),
-- dead, untimed (timers to delete); lines: the ready ones of other lines than the first. near: scores and numbers of timers
-- to set; earliest_ms: the first of them. arrivals: jobs published and deliveries taken back. unlisted: ready or dead jobs
-- were deleted, or moved to another line; unlisted_lines: those lines, except for the first. groups: by group how many more
-- of its jobs are leased.
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

-- Adds a job to the jobs of a line that are to be ready.
local function add_ready(changes, number, line)
  if line == '' then return add(changes, 'ready', number) end
  changes.lines = changes.lines or {}
  add(changes.lines, line, number)
end

-- Notes that the hint of a job in this line has become stale.
local function unlist(changes, line)
  changes.unlisted = true
  if line == '' then return end
  changes.unlisted_lines = changes.unlisted_lines or {}
  changes.unlisted_lines[line] = true
end

-- Notes that more jobs of the group of this job are leased, or with -1 that one is no longer.
local function count_run(job, more)
  local changes, group = changes_of(job[QUEUE]), group_of(job[FLAGS], job[RECORD])
  if not group then return end
  changes.groups = changes.groups or {}
  changes.groups[group] = (changes.groups[group] or 0) + more
end

-- Calls a command with a list of values, several times if there are many. Returns the last reply.
local function send(command, key, values)
  local reply
  for first = 1, #values, VALUES_MAX do
    reply = call(command, key, unpack(values, first, min(first + VALUES_MAX - 1, #values)))
  end
  return reply
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

-- Removes the timer that a job has for its due time. A far hint stays, and is stale. A long lease may have a near one.
local function drop_timer(job)
  if job[DUE_MS] < near_until_ms or job[STATE] == LEASED then
    add(changes_of(job[QUEUE]), 'untimed', job[NUMBER])
  else
    stale_far = stale_far + 1
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
