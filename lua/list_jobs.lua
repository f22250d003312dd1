#!lua flags=no-writes
-- list_jobs: returns the jobs of a queue that have one of some states and are due in a range, a bounded number per call.
-- Done jobs: list_done.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] part   where hints are read: ready or dead = the lists of these jobs; far = all far slots of the bucket; near = the
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
--   or not requested), and the index of its hint in the list (with ready and dead; else -1). A job that keeps its state, due
--   time and priority is returned by a walk through the parts far, near, ready, dead, perhaps twice
-- Changes: nothing
-- Errors: the errors of every script (prelude.lua)
-- Since layout 2
--- include lines, walks

local name, part, at, limit = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local due_from_ms, due_before_ms, carry = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local with_failures = ARGV[11] == '1'

local wanted = {}
for state in string.gmatch(ARGV[7], '%d') do wanted[tonumber(state)] = true end

local queue = queue_in_bucket(call('HGET', KEYS[1], name))
local reply = { 'ok', '', now_ms }

-- Hints, lines and far slots read, and bytes of the reply.
local work, bytes = 0, 0

-- A reply ends at about this many bytes of records, so that it stays a small transfer.
local BYTES_MAX = 65536

local function is_full()
  return work >= limit or bytes >= BYTES_MAX
end

local function last_failure(job)
  return with_failures and has(job, LOGGED) and call('LINDEX', prefix .. 'log:' .. job[NUMBER], -1) or ''
end

local function header_of(job)
  return has(job, COLD) and job[RECORD] or sub(job[RECORD], 1, head_bytes(job))
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

-- Reads a list from this index on. Returns where to continue in it; nil = it is complete. Places are the index of the last
-- hint, its number, the due time of its job (0 = it may have any), the number before it, and how often a purge has turned
-- the list.
local function walk_from(list, first, before, state, line, turned)
  local most = limit - work
  local hints = call('LRANGE', list, first, first + most - 1)
  read_ahead(hints)
  for i, hint in ipairs(hints) do
    local job = hinted(hint, state, queue, line)
    show(job, 0, first + i - 1)
    local number = string.match(hint, '%d+') or '0'
    if i == most or bytes >= BYTES_MAX and i < #hints then
      return text('%d:%s:%.0f:%s:%s', first + i - 1, number, job and job[DUE_MS] or 0, before, turned)
    end
    before = number
  end
end

-- Walks through the list of dead jobs, or the lines of ready ones: the first line, then others by their turns. A line moves
-- behind others when jobs of it are taken, so that none is passed over, except for a line that was held. Positions are the
-- priority of the line, the two halves of its group (0:0 = none) and its turn (0 = the first line), and the place in it;
-- '0:0:0:0:0' = its begin.
local function walk_list(state)
  local of_queue = text('%d', queue)
  local turned = state == DEAD and call('HGET', prefix .. 'q:' .. of_queue, 'turned') or '0'
  local line, turn, index, number, due_ms, before, was_turned =
    string.match(at, '^(%d+:%d+:%d+):(%d+):(%d+):(%d+):(%d+):(%d+):(%d+)$')
  local first, search_from = 0, nil
  turn = turn or '0'
  -- As turns has it.
  line = line and line ~= '0:0:0' and ':' .. string.gsub(line, ':0:0$', '') or ''
  local list = prefix .. part .. ':' .. of_queue
  if number and number ~= '0' and turned == was_turned then
    first, search_from = behind(list .. line, tonumber(index), number, tonumber(due_ms), before,
      state == READY)
  end
  local place = not first and text('%d:%s:%s:%s:%s', search_from, number, due_ms, before, turned)
    or walk_from(list .. line, first, first > 0 and number or '0', state, state == READY and line, turned)
  while not place do
    local found = state == READY and call('ZRANGE', prefix .. 'turns:' .. of_queue, '(' .. turn, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES') or {}
    if not found[1] then return '' end
    line, turn, work = found[1], found[2], work + 1
    if line ~= '' then
      place = is_full() and '0:0:0:0:0' or walk_from(list .. line, 0, '0', state, line, turned)
    end
  end
  return text('%s:%s:%s', line == '' and '0:0:0' or #line == 2 and sub(line, 2) .. ':0:0' or sub(line, 2), turn, place)
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
