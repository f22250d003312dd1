#!lua flags=no-writes
-- list_jobs: returns the jobs of a queue that have one of some states and are due in a range, a bounded number per call.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] part   where hints are read: ready or dead = the list of these jobs; far = all far slots of the bucket; near = the
--   near timers of the queue; done = all chunks of the bucket with jobs that expire
-- ARGV[5] at     where to continue, as a call before returned it; '' = at the beginning of the part
-- ARGV[6] limit  most hints, or records of chunks, that one call reads
-- ARGV[7] states numbers of the states, without separator
-- ARGV[8] from   only jobs whose due time is not before this, in ms
-- ARGV[9] before only jobs whose due time is before this, in ms
-- ARGV[10] carry largest body, in bytes, that is returned with its header; '' = no payloads and no failures
-- Returns ok → where to continue, '' = the part is complete; now_ms; then for each job its number, its record, the last entry
--   of its log ('' = none), and the index of its hint in the list (with ready and dead; else -1). A job that keeps its state
--   and due time is returned by a walk through the parts far, near, ready, dead, done, perhaps twice
-- Changes: nothing
-- Errors: those of every script (prelude.lua)
-- Since layout 2

local name, part, at, limit = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local due_from_ms, due_before_ms, carry = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])

-- A reply ends at about this many bytes of records and bodies, so that it stays a small transfer.
local BYTES_MAX = 65536
-- The list of a call that continues may have lost this many hints at its head, or got that many there, without a search.
local TAKEN, RETURNED = 1000, 200
-- Far slots as one number, in the order in which they are read: jobs move to lower levels only.
local SLOTS_OF_LEVEL = 2 ^ 40

local wanted = {}
for state in string.gmatch(ARGV[7], '%d') do wanted[tonumber(state)] = true end
local queue = queue_in_bucket(call('HGET', KEYS[1], name))
local reply = { 'ok', '', now_ms }
-- Hints and records read, and bytes of the reply.
local work, bytes = 0, 0

local function is_full()
  return work >= limit or bytes >= BYTES_MAX
end

local function last_failure(job)
  return carry and has(job, LOGGED) and call('LINDEX', prefix .. 'log:' .. job[NUMBER], -1) or ''
end

local function header_of(job)
  return sub(job[RECORD], 1, HEADER_BYTES + (has(job, EXTENDED) and 1 + string.byte(job[RECORD], HEADER_BYTES + 1) or 0))
end

-- Adds a job to the reply if it is wanted. A hint for a time after its due time is stale: it has an earlier one.
local function show(job, hint_ms, index)
  work = work + 1
  if not job or job[QUEUE] ~= queue or not wanted[job[STATE]] or expired(job) then return end
  local due_ms = job[DUE_MS]
  if due_ms < hint_ms or due_ms < due_from_ms or due_ms >= due_before_ms then return end
  local record = carry and job[STATE] ~= DONE and whole(job, carry) or header_of(job)
  bytes = bytes + #record
  -- The caller fetches a body that is left out.
  if carry and job[STATE] ~= DONE and record == job[RECORD] and has(job, BODY_OUTSIDE) then
    bytes = bytes + call('STRLEN', prefix .. 'body:' .. job[NUMBER])
  end
  local last = #reply
  reply[last + 1], reply[last + 2], reply[last + 3] = tonumber(job[NUMBER]), record, last_failure(job)
  reply[last + 4] = index or -1
end

-- The index of the first hint behind an anchor: one that was read at this index, and whose job was due then. Consumers take
-- hints from the head, and give some back there. nil if it is not found near there: then also the index from which the next
-- call searches. If it was taken itself, so were all before it. It may have come back to the tail since, with another due time.
local function behind(list, state, index, number, due_ms)
  local job, crossed_out = read(number), '-' .. number
  local came_back = job and (not state or job[STATE] == state) and job[DUE_MS] ~= due_ms
  local function is_anchor(hint) return hint == crossed_out or hint == number and not came_back end
  if is_anchor(call('LINDEX', list, index)) then return index + 1 end
  local first = max(0, index - TAKEN)
  local hints = call('LRANGE', list, first, index + RETURNED)
  for i = #hints, 1, -1 do
    if is_anchor(hints[i]) then return first + i end
  end
  if first == 0 then return 0 end
  return nil, first
end

-- Reads a list from a position on: the index of the hint before, its number, and its due time. Returns the position behind,
-- '' at its end.
local function walk_list(list, position, state, hint_ms)
  local index, number, due_ms = string.match(position, '^(%d+):(%d+):(%d+)$')
  local first, search_from = 0, nil
  if index then first, search_from = behind(list, state, tonumber(index), number, tonumber(due_ms)) end
  if not first then
    work = limit
    return text('%d:%s:%s', search_from, number, due_ms)
  end
  local most = limit - work
  local hints = call('LRANGE', list, first, first + most - 1)
  read_ahead(hints)
  for i, hint in ipairs(hints) do
    local job = read(hint)
    local is_live = job and (not state or job[STATE] == state)
    show(is_live and job, hint_ms, state and first + i - 1)
    if i == most or bytes >= BYTES_MAX and i < #hints then
      return text('%d:%s:%.0f', first + i - 1, string.match(hint, '%d+'), is_live and job[DUE_MS] or 0)
    end
  end
  return ''
end

-- The far slots of the bucket behind this one, as numbers in order.
local function far_slots(behind_slot)
  local slots = {}
  for _, slot in ipairs(call('ZRANGE', prefix .. 'slots', 0, -1)) do
    local level, number = string.match(slot, '^(%d):(%d+)$')
    local place = level and (#WIDTHS - level) * SLOTS_OF_LEVEL + number
    if place and place > behind_slot then slots[#slots + 1] = place end
  end
  table.sort(slots)
  return slots
end

-- Positions are 'slot', or 'slot:' and the position in its list.
local function walk_far()
  local slot, position = string.match(at, '^(%d+):?(.*)$')
  slot = tonumber(slot)
  local slots = slot and {} or far_slots(-1)
  local i, all = 0, not slot
  repeat
    if not slot then
      i = i + 1
      slot, position = slots[i], ''
      if not slot then return '' end
    end
    local level, number = #WIDTHS - floor(slot / SLOTS_OF_LEVEL), slot % SLOTS_OF_LEVEL
    position = walk_list(text('%sfar:%d:%d', prefix, level, number), position, nil, number * WIDTHS[level])
    if position ~= '' then return text('%.0f:%s', slot, position) end
    work = work + 1
    if not all then slots, all = far_slots(slot), true end
    slot = nil
  until is_full()
  return slots[i + 1] and text('%.0f', slots[i + 1]) or ''
end

-- Positions are 'score:member'. Scores are due times.
local function walk_near()
  local near, first = prefix .. 'near:' .. text('%d', queue), 0
  local score, member = string.match(at, '^(%d+):(%d+)$')
  if score then
    local found = call('ZSCORE', near, member) == score
    first = found and call('ZRANK', near, member) + 1 or call('ZCOUNT', near, '-inf', '(' .. score)
  end
  local hints = call('ZRANGE', near, first, first + limit - 1, 'WITHSCORES')
  local numbers = {}
  for i = 1, #hints, 2 do numbers[#numbers + 1] = hints[i] end
  read_ahead(numbers)
  for i, number in ipairs(numbers) do
    local job = read(number)
    if job and job[STATE] ~= DELAYED and job[STATE] ~= LEASED then job = false end
    show(job, tonumber(hints[2 * i]))
    if is_full() then return hints[2 * i] .. ':' .. number end
  end
  return ''
end

-- Shows the jobs of a chunk that are done, from this place on. Returns the place that is next, nil at the end.
local function walk_chunk(chunk, place)
  local fields, records = call('HGETALL', chunks .. chunk), {}
  for i = 1, #fields, 2 do records[tonumber(fields[i]) or -1] = fields[i + 1] end
  for next_place = place, 99 do
    if records[next_place] and is_full() then return next_place end
    local job = unpack_header(text('%s%02d', chunk, next_place), records[next_place])
    if records[next_place] then show(job and job[STATE] == DONE and job, 0) end
  end
end

-- Positions are a cursor of ZSCAN, how many of its entries were read, and the next place in the chunk of the entry behind.
local function walk_done()
  local cursor, skipped, place = string.match(at, '^(%d+):(%d+):(%d+)$')
  skipped = tonumber(skipped) or 0
  local next_cursor, entries = unpack(call('ZSCAN', prefix .. 'expiry', cursor or '0', 'COUNT', limit))
  local i, next_place = 2 * skipped + 1, tonumber(place) or 0
  while i < #entries do
    if is_full() then return text('%s:%d:%d', cursor or '0', (i - 1) / 2, next_place) end
    next_place = walk_chunk(entries[i], next_place)
    if not next_place then i, next_place, work = i + 2, 0, work + 1 end
  end
  return next_cursor ~= '0' and next_cursor .. ':0:0' or ''
end

if queue == 0 then return reply end
if part == 'far' then
  reply[2] = walk_far()
elseif part == 'near' then
  reply[2] = walk_near()
elseif part == 'done' then
  reply[2] = walk_done()
else
  reply[2] = walk_list(prefix .. part .. ':' .. text('%d', queue), at, part == 'ready' and READY or DEAD, 0)
end
return reply
