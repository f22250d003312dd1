#!lua flags=no-writes
-- list_queues: lists the queues of a bucket, of one namespace or of all, with their counts, a bounded number per call.
-- KEYS[1] queues hash: namespace/queue → queue number; field # = the last queue number;
--                field namespace/ = how many queues of it have a number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] cursor where to continue: a cursor of HSCAN, and how many of its entries were read; 0:0 = from the beginning
-- ARGV[4] limit  most entries of queues and hints that one call reads, give or take the hints of one queue
-- ARGV[5] hints  most hints that one call reads per line to find the oldest ready job of a queue
-- ARGV[6] namespace of the queues; '' = any
-- Returns ok → cursor to continue with, 0:0 = the list is complete; for how long the earliest timer of these queues or, at
--   the beginning, the loading of the earliest far slot, is overdue, in ms; then for each queue its name, its number of
--   jobs delayed, ready, leased, dead, and since when its oldest ready job is ready, as an age in ms; -1 = none found. A
--   queue may be returned twice if queues are added or forgotten meanwhile
-- Changes: nothing
-- Errors: the errors of every script (prelude.lua)
-- Since layout 2
--- include lines

local cursor, limit, hints, namespace = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
-- Entries of other namespaces that one call passes over, about.
local PASSED = 500

if namespace ~= '' and call('HEXISTS', KEYS[1], namespace .. '/') == 0 then return { 'ok', '0:0', 0 } end

-- Entries and hints read so far.
local work = 0

-- Stale hints stay in the list: this script does not write.
local function oldest_of_line(queue, line)
  for _, number in ipairs(call('LRANGE', prefix .. 'ready:' .. text('%d', queue) .. line, 0, hints - 1)) do
    work = work + 1
    local job = hinted(number, READY, queue, line)
    if job and not expired(job) then return max(0, now_ms - job[DUE_MS]) end
  end
  return -1
end

-- Of a queue with many lines so many of the first ones are read, and of the last ones, which may be held.
local LINES_READ = 8

local function oldest_ready_ms(queue, value)
  local oldest_ms = oldest_of_line(queue, '')
  if not has_lines(value) then return oldest_ms end
  local turns = prefix .. 'turns:' .. text('%d', queue)
  for _, place in ipairs({ 0, -LINES_READ }) do
    for _, line in ipairs(call('ZRANGE', turns, place, place + LINES_READ - 1)) do
      if line ~= '' then oldest_ms = max(oldest_ms, oldest_of_line(queue, line)) end
    end
  end
  return oldest_ms
end

-- The time since the lowest score of a sorted set; 0 if it is empty, or in the future.
local function overdue_ms(key)
  local first = call('ZRANGE', prefix .. key, 0, 0, 'WITHSCORES')
  return first[2] and max(0, now_ms - tonumber(first[2])) or 0
end

-- A small hash is returned whole, whatever COUNT says, so a page may end within the entries of one HSCAN.
local at, skipped = string.match(cursor, '^(%d+):(%d+)$')
skipped = tonumber(skipped)
local entries_read, pattern = limit / 2, '*'
if namespace ~= '' then entries_read, pattern = PASSED, namespace .. '/?*' end
local next_at, entries = unpack(call('HSCAN', KEYS[1], at, 'MATCH', pattern, 'COUNT', entries_read))
local reply = { 'ok', '', cursor == '0:0' and overdue_ms('slots') or 0 }
local i = 2 * skipped + 1
while i < #entries and work < limit do
  local name, queue = entries[i], queue_in_bucket(entries[i + 1])
  if name ~= '#' and sub(name, -1) ~= '/' and queue > 0 then
    local number = text('%d', queue)
    reply[#reply + 1] = name
    -- A damaged count may not be a number.
    for _, jobs in ipairs(call('HMGET', prefix .. 'q:' .. number, unpack(STATES))) do
      reply[#reply + 1] = tonumber(jobs) or 0
    end
    reply[#reply + 1] = oldest_ready_ms(queue, entries[i + 1])
    reply[3] = max(reply[3], overdue_ms('near:' .. number))
  end
  i, work = i + 2, work + 1
end
reply[2] = i < #entries and text('%s:%d', at, (i - 1) / 2) or next_at .. ':0'
return reply
