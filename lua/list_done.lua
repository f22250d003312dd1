#!lua flags=no-writes
-- list_done: returns the jobs of a queue that are done and ended in a range of time, a bounded number per call.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] at     where to continue, as a call before returned it; '' = at the beginning
-- ARGV[5] limit  most records that one call reads
-- ARGV[6] from   only jobs whose due time is not before this, in ms
-- ARGV[7] before only jobs whose due time is before this, in ms
-- ARGV[8] failures 1 = with the last entry of the log of each job
-- Returns ok → where to continue, '' = the list is complete; now_ms; then for each job its number, its header, the last entry
--   of its log ('' = none or not requested), and -1. A job that is done all the time is returned, perhaps twice
-- Changes: nothing
-- Errors: the errors of every script (prelude.lua)
-- Since layout 2
--- include records

local name, at, limit = ARGV[3], ARGV[4], tonumber(ARGV[5])
local due_from_ms, due_before_ms, with_failures = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] == '1'

local queue = queue_in_bucket(call('HGET', KEYS[1], name))
local reply, work = { 'ok', '', now_ms }, 0

local function show(job)
  work = work + 1
  if not job or job[STATE] ~= DONE or job[QUEUE] ~= queue or expired(job) then return end
  if job[DUE_MS] < due_from_ms or job[DUE_MS] >= due_before_ms then return end
  local extension = has(job, EXTENDED) and 1 + (string.byte(job[RECORD], HEADER_BYTES + 1) or 0) or 0
  local failure = with_failures and has(job, LOGGED) and call('LINDEX', prefix .. 'log:' .. job[NUMBER], -1) or ''
  local last = #reply
  reply[last + 1], reply[last + 2] = tonumber(job[NUMBER]), sub(job[RECORD], 1, HEADER_BYTES + extension)
  reply[last + 3], reply[last + 4] = failure, -1
end

-- Shows the jobs of a chunk from this place on. Returns the place that is next, nil at the end.
local function walk_chunk(chunk, place)
  local fields, records = call('HGETALL', chunks .. chunk), {}
  for i = 1, #fields, 2 do records[tonumber(fields[i]) or -1] = fields[i + 1] end
  for next_place = place, 99 do
    local record = records[next_place]
    if record and work >= limit then return next_place end
    if record then show(unpack_header(text('%s%02d', chunk, next_place), record)) end
  end
end

-- All jobs that are done expire, so their chunks are in the index of expiry: the chunks of one reply of ZSCAN, in
-- order.
local function scan(cursor)
  local next_cursor, entries = unpack(call('ZSCAN', prefix .. 'expiry', cursor, 'COUNT', 1))
  local found = {}
  for i = 1, #entries, 2 do found[#found + 1] = tonumber(entries[i]) end
  table.sort(found)
  return next_cursor, found
end

-- The sum of the chunks of a reply that are before this one.
local function sum_before(found, chunk)
  local sum = 0
  for _, other in ipairs(found) do
    if other < chunk then sum = sum + other end
  end
  return sum
end

-- Positions are a cursor of ZSCAN, a chunk of its reply and a place in it, and the sum of the chunks before. The same cursor
-- may have another reply later: only if the sum is the same, or a reply has all chunks, were those before it shown.
local function walk()
  local cursor, chunk, place, sum = string.match(at, '^(%d+):(%d+):(%d+):(%d+)$')
  cursor, chunk, place, sum = cursor or '0', tonumber(chunk) or 0, tonumber(place) or 0, tonumber(sum) or 0
  repeat
    local next_cursor, found = scan(cursor)
    local is_all = cursor == '0' and next_cursor == '0'
    if not is_all and sum_before(found, chunk) ~= sum then chunk, place = 0, 0 end
    for _, next_chunk in ipairs(found) do
      if next_chunk >= chunk then
        local next_place = next_chunk == chunk and place or 0
        if work < limit then next_place = walk_chunk(text('%.0f', next_chunk), next_place) end
        if next_place then
          return text('%s:%.0f:%d:%.0f', cursor, next_chunk, next_place, sum_before(found, next_chunk))
        end
        work = work + 1
      end
    end
    cursor, chunk, place, sum, work = next_cursor, 0, 0, 0, work + 1
  until cursor == '0' or work >= limit
  return cursor ~= '0' and cursor .. ':0:0:0' or ''
end

if queue ~= 0 then reply[2] = walk() end
return reply
