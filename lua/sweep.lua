#!lua flags=allow-oom
-- sweep: deletes expired jobs, forgets idle queues and drops stale hints, a bounded number of each per call.
-- KEYS[1] lock   token of the pump that leads the bucket
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] token  of the calling pump
-- ARGV[4] limit  most chunks that one call reads
-- ARGV[5] pause_ms least time between two reads of a chunk
-- Returns ok → number of jobs deleted, 1 if there is more to do (call again) else 0, ms until the next work or -1
-- Returns lost → the caller does not lead the bucket; nothing changed
-- Changes: deletes expired jobs; drops their hints at the head of ready lists; sets when each chunk is read next; deletes
--   the number, name and counts of queues that are empty, and were empty and unused for a minute; drops stale hints
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include records, lines, settle

local token, limit, pause_ms = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

if call('GET', KEYS[1]) ~= token then return { 'lost' } end

-- Most items of cleanup in one call, and most hints that one of them reads: each takes up to about 1 ms.
local ITEMS_MAX, HINTS_MAX, LINES_MAX = 2, 500, 100
-- When a queue is checked again of which only such lines are left.
local STALE_LINES_MS = 1000

local expiry, cleanup, stale = prefix .. 'expiry', prefix .. 'cleanup', prefix .. 'stale'
local names = prefix .. 'queues'
local swept, swept_ready = 0, {}

-- Counts the hints that are stale now, by queue and line.
local function count_swept(job)
  local lines, line = swept_ready[job[QUEUE]] or {}, line_of(job[FLAGS], job[RECORD])
  lines[line] = (lines[line] or 0) + 1
  swept_ready[job[QUEUE]] = lines
end

local function sweep_chunk(chunk)
  local records, next_ms = call('HGETALL', chunks .. chunk), nil
  for i = 1, #records, 2 do
    local job = unpack_header(chunk .. records[i], records[i + 1])
    if job and job[EXPIRES_MS] > now_ms then
      next_ms = math.min(next_ms or job[EXPIRES_MS], job[EXPIRES_MS])
    elseif job and job[EXPIRES_MS] > 0 then
      delete(job)
      swept = swept + 1
      if job[STATE] == READY then count_swept(job) end
    end
  end
  if next_ms then
    call('ZADD', expiry, math.max(next_ms, now_ms + pause_ms), chunk)
  else
    call('ZREM', expiry, chunk)
  end
end

-- Whether a queue has no job: by its counts, and by its lists and near timers, whose hints must all be stale.
local function is_empty(queue, counts)
  -- Lines without live jobs go also from a queue that has jobs in other states.
  if (tonumber(counts[READY]) or 0) == 0 then drop_stale_ready(queue, HINTS_MAX, LINES_MAX) end
  for i = 1, #STATES do
    if (tonumber(counts[i]) or 0) ~= 0 then return false end
  end
  drop_stale(DEAD, queue, HINTS_MAX)
  local ready, turns, dead, near = prefix .. 'ready:', prefix .. 'turns:', prefix .. 'dead:', prefix .. 'near:'
  return call('EXISTS', ready .. queue, turns .. queue, dead .. queue, near .. queue) == 0
end

-- Each returns when the item is to be looked at again, or nil.
local clean = {}

function clean.b(block)
  local again_ms
  local last = tonumber(call('HGET', names, '#')) or math.huge
  for queue = block * QUEUES_PER_BLOCK, min((block + 1) * QUEUES_PER_BLOCK - 1, last) do
    local of_queue = prefix .. 'q:' .. text('%d', queue)
    local known = call('HMGET', of_queue, 'name', 'arrivals', 'checked', unpack(STATES))
    local name, arrivals, checked = known[1], known[2] or '0', known[3]
    -- Closed lanes have an entry of another form, which must stay.
    if name and tonumber(call('HGET', names, name)) == queue then
      local is_unused = is_empty(queue, { unpack(known, 4) })
      if is_unused and checked == arrivals then
        forget_queue(names, name)
        call('DEL', of_queue, prefix .. 'running:' .. text('%d', queue))
        call('ZREM', prefix .. 'due', text('%d', queue))
      else
        if is_unused then call('HSET', of_queue, 'checked', arrivals) end
        -- Lines that are left of a queue without ready jobs have stale hints.
        local has_stale = (tonumber(known[5]) or 0) == 0 and call('EXISTS', prefix .. 'turns:' .. text('%d', queue)) == 1
        again_ms = min(again_ms or math.huge, now_ms + (has_stale and STALE_LINES_MS or IDLE_MS))
      end
    end
  end
  return again_ms
end

-- Drops the stale hints of a list, some in each call. A hint that moves towards the head meanwhile may be passed over.
local function clean_list(item, state, queue, line)
  local list, from = prefix .. STATES[state] .. ':' .. text('%d', queue) .. line, tonumber(call('HGET', stale, item)) or 0
  local numbers, dropped, DROPPED = call('LRANGE', list, from, from + HINTS_MAX - 1), 0, '0'
  read_ahead(numbers)
  for i = 1, #numbers do
    if not hinted(numbers[i], state, queue, state == READY and line) then
      call('LSET', list, from + i - 1, DROPPED)
      dropped = dropped + 1
    end
  end
  -- From the end that is nearer.
  local is_near_head = from < call('LLEN', list) / 2
  if dropped > 0 then call('LREM', list, is_near_head and dropped or -dropped, DROPPED) end
  if state == READY then end_turn(text('%d', queue), line) end
  if #numbers < HINTS_MAX then return call('HDEL', stale, item) and nil end
  call('HSET', stale, item, from + #numbers - dropped)
  return now_ms
end

function clean.r(queue, line) return clean_list('r' .. text('%d', queue) .. line, READY, queue, line) end

function clean.d(queue) return clean_list('d' .. text('%d', queue), DEAD, queue, '') end

-- The far slot behind the slot with this name and score, in the order of the index; nil if there is none.
local function next_slot(slot, at_ms)
  local found = call('ZRANGE', prefix .. 'slots', at_ms, '+inf', 'BYSCORE', 'LIMIT', 0, 8, 'WITHSCORES')
  for i = 1, #found, 2 do
    if found[i + 1] ~= at_ms or found[i] > slot then return found[i], found[i + 1] end
  end
end

-- Whether half of all far hints may be stale, by the number that became stale since the last time.
local function most_far_are_stale()
  local hints = 0
  for _, slot in ipairs(call('ZRANGE', prefix .. 'slots', 0, -1)) do
    hints = hints + call('LLEN', prefix .. 'far:' .. slot)
  end
  return 2 * (tonumber(call('HGET', stale, 'far')) or 0) > hints
end

-- Moves hints from the head of a far slot to its tail, without the stale ones: their order has no meaning.
local function turn_slot(slot, hints)
  local far, live = prefix .. 'far:' .. slot, {}
  local numbers = call('LPOP', far, hints) or {}
  read_ahead(numbers)
  for i = 1, #numbers do
    local job = read(numbers[i])
    if job and (job[STATE] == DELAYED or job[STATE] == LEASED) then live[#live + 1] = numbers[i] end
  end
  if #live > 0 then call('RPUSH', far, unpack(live)) end
  if not taken_from(slot, #numbers) then call('ZREM', prefix .. 'slots', slot) end
end

-- Walks through all far slots, some hints in each call.
function clean.f()
  local slot, at_ms, left = unpack(call('HMGET', stale, 'slot', 'slot_ms', 'left'))
  if not slot then
    if not most_far_are_stale() then return end
    call('HDEL', stale, 'far')
    slot, at_ms, left = '', '-inf', 0
  end
  at_ms, left = at_ms or '-inf', tonumber(left) or 0
  if left == 0 then
    slot, at_ms = next_slot(slot, at_ms)
    -- Hints are not where the cold tier has looked at them.
    if not slot then return call('DEL', prefix .. 'cold_walk') and call('HDEL', stale, 'slot', 'slot_ms', 'left') and nil end
    left = call('LLEN', prefix .. 'far:' .. slot)
  end
  local hints = min(left, HINTS_MAX)
  turn_slot(slot, hints)
  call('HSET', stale, 'slot', slot, 'slot_ms', at_ms, 'left', left - hints)
  return now_ms
end

for _, chunk in ipairs(call('ZRANGE', expiry, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, limit)) do
  sweep_chunk(chunk)
end
-- In a queue without consumers no other call would drop these hints.
for queue, lines in pairs(swept_ready) do
  for line, hints in pairs(lines) do
    drop_stale(READY, queue, hints, line)
    end_turn(text('%d', queue), line)
  end
end
settle()

for _, item in ipairs(call('ZRANGE', cleanup, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, min(limit, ITEMS_MAX))) do
  local kind, number, line = string.match(item, '^([brd])(%d+)([:%d]*)$')
  if item == 'f' then kind = item end
  -- An item that was damaged is dropped.
  local again_ms = kind and clean[kind](tonumber(number), line)
  if again_ms then call('ZADD', cleanup, text('%d', again_ms), item) else call('ZREM', cleanup, item) end
end

local function wait_ms(index)
  local head = call('ZRANGE', index, 0, 0, 'WITHSCORES')[2]
  return head and max(0, head - now_ms) or math.huge
end

local next_ms = min(wait_ms(expiry), wait_ms(cleanup))
if next_ms == math.huge then next_ms = -1 end
return { 'ok', swept, next_ms == 0 and 1 or 0, next_ms }
