#!lua flags=no-writes
-- list_jobs: returns the jobs of a queue that have one of some states and are due in a range, a bounded number per call.
-- Done jobs: list_done.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] part   where hints are read: ready or dead = the list of these jobs; far = all far slots of the bucket; near = the
--   near timers of the queue
-- ARGV[5] at     where to continue, as a call before returned it; '' = at the beginning of the part
-- ARGV[6] limit  most hints that one call reads
-- ARGV[7] states numbers of the states, without separator
-- ARGV[8] from   only jobs whose due time is not before this, in ms
-- ARGV[9] before only jobs whose due time is before this, in ms
-- ARGV[10] carry how many bytes of a body outside of its record are returned at most; '' = no payloads
-- ARGV[11] failures 1 = with the last entry of the log of each job
-- Returns ok → where to continue, '' = the part is complete; now_ms; then for each job its number, its record, with the
--   beginning of a body that is outside (without payloads the header and the extension), the last entry of its log ('' = none
--   or not requested), and the index of its hint in the list (with ready and dead; else -1). A job that keeps its state and due
--   time is returned by a walk through the parts far, near, ready, dead, perhaps twice
-- Changes: nothing
-- Errors: the errors of every script (prelude.lua)
-- Since layout 2
--- include records

local name, part, at, limit = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local due_from_ms, due_before_ms, carry = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local with_failures = ARGV[11] == '1'

-- A reply ends at about this many bytes of records, so that it stays a small transfer.
local BYTES_MAX = 65536
-- A list of which a call continues may have lost this many hints at its head, or got that many there, without a search.
local TAKEN, RETURNED = 1000, 200
-- Far slots whose names are read together. More than have the same score, which is one of each level.
local SLOTS_AHEAD = 32

local wanted = {}
for state in string.gmatch(ARGV[7], '%d') do wanted[tonumber(state)] = true end
local queue = queue_in_bucket(call('HGET', KEYS[1], name))
local reply = { 'ok', '', now_ms }
-- Hints and far slots read, and bytes of the reply.
local work, bytes = 0, 0

local function is_full()
  return work >= limit or bytes >= BYTES_MAX
end

local function last_failure(job)
  return with_failures and has(job, LOGGED) and call('LINDEX', prefix .. 'log:' .. job[NUMBER], -1) or ''
end

local function header_of(job)
  return sub(job[RECORD], 1, HEADER_BYTES + (has(job, EXTENDED) and 1 + (string.byte(job[RECORD], HEADER_BYTES + 1) or 0) or 0))
end

-- Adds a job to the reply if it is wanted. A hint for a time after its due time is stale: it has an earlier one.
local function show(job, hint_ms, index)
  work = work + 1
  if not job or job[QUEUE] ~= queue or not wanted[job[STATE]] or expired(job) then return end
  local due_ms = job[DUE_MS]
  if due_ms < hint_ms or due_ms < due_from_ms or due_ms >= due_before_ms then return end
  local record = carry and job[RECORD] or header_of(job)
  if carry and has(job, BODY_OUTSIDE) then
    record = record .. call('GETRANGE', prefix .. 'body:' .. job[NUMBER], 0, carry - 1)
  end
  bytes = bytes + #record
  local last = #reply
  reply[last + 1], reply[last + 2], reply[last + 3] = tonumber(job[NUMBER]), record, last_failure(job)
  reply[last + 4] = index or -1
end

-- The job of a timer; false if its state has none.
local function timed(number)
  local job = read(number)
  return job and (job[STATE] == DELAYED or job[STATE] == LEASED) and job
end

-- The index behind an anchor: the last hint that was read, which had this index, with this hint before it. nil if it is not
-- found near there: then also the index from which the next call searches. Consumers take hints from the head, and give some
-- back there; stale ones are dropped. If the anchor was taken itself, so were all before it. Its job may have other hints
-- further on: the first one counts, and only behind the same hint. If the job has another due time it may have come back;
-- then it was taken, or a respawn has crossed out its hint.
local function behind(list, index, number, due_ms, before)
  local job, crossed_out = due_ms > 0 and read(number), '-' .. number
  local may_be_back = job and job[DUE_MS] ~= due_ms
  if may_be_back and part == 'ready' then return 0 end
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

-- Positions are the index of the last hint, its number, the due time of its job (0 = it may have any), the number before it,
-- and how often a purge has turned the list.
local function walk_list(state)
  local list, of_queue = prefix .. part .. ':' .. text('%d', queue), prefix .. 'q:' .. text('%d', queue)
  local turned = state == DEAD and call('HGET', of_queue, 'turned') or '0'
  local index, number, due_ms, before, was_turned = string.match(at, '^(%d+):(%d+):(%d+):(%d+):(%d+)$')
  local first, search_from = 0, nil
  if index and turned == was_turned then
    first, search_from = behind(list, tonumber(index), number, tonumber(due_ms), before)
  end
  if not first then return text('%d:%s:%s:%s:%s', search_from, number, due_ms, before, turned) end
  local hints = call('LRANGE', list, first, first + limit - 1)
  read_ahead(hints)
  before = first > 0 and number or '0'
  for i, hint in ipairs(hints) do
    local job = hinted(hint, state, queue)
    show(job, 0, first + i - 1)
    number = string.match(hint, '%d+') or '0'
    if i == limit or bytes >= BYTES_MAX and i < #hints then
      return text('%d:%s:%.0f:%s:%s', first + i - 1, number, job and job[DUE_MS] or 0, before, turned)
    end
    before = number
  end
  return ''
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

-- Positions are a slot, the index of the next hint, and how many were taken from the head of the slot before.
local function walk_far()
  local slot, index, was_taken = string.match(at, '^([1-4]:%d+):(%d+):(%d+)$')
  local first, slots, i = 0, {}, 0
  if slot then
    local taken = (tonumber(call('HGET', prefix .. 'stale', 'taken:' .. slot)) or 0) - was_taken
    first = taken < 0 and 0 or max(0, index - taken)
  end
  while true do
    if not slot or i > 0 then
      if not slots[i] then slots, i = slots_behind(slot), 1 end
      slot, first = slots[i], 0
      if not slot then return '' end
      if is_full() then return slot .. ':0:0' end
    end
    local width_ms, most = WIDTHS[tonumber(sub(slot, 1, 1))], limit - work
    local begin_ms = sub(slot, 3) * width_ms
    local hints = call('LRANGE', prefix .. 'far:' .. slot, first, first + most - 1)
    read_ahead(hints)
    for read_hints, hint in ipairs(hints) do
      local job = timed(hint)
      -- A delayed job that is due later was postponed, and has a hint there.
      local is_early = job and job[STATE] == DELAYED and job[DUE_MS] >= begin_ms + width_ms
      show(not is_early and job, begin_ms)
      if read_hints == most or bytes >= BYTES_MAX then
        return text('%s:%.0f:%s', slot, first + read_hints, call('HGET', prefix .. 'stale', 'taken:' .. slot) or '0')
      end
    end
    work, i = work + 1, i + 1
  end
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
    show(timed(number), tonumber(hints[2 * i]))
    if is_full() then return hints[2 * i] .. ':' .. number end
  end
  return ''
end

if queue == 0 then return reply end
if part == 'far' then
  reply[2] = walk_far()
elseif part == 'near' then
  reply[2] = walk_near()
else
  reply[2] = walk_list(part == 'ready' and READY or DEAD)
end
return reply
