#!lua flags=allow-oom
-- cold_scan: returns jobs whose payloads may go to the cold tier, from far hints at which it has not looked before.
-- KEYS[1] lock    token of the pump that leads the bucket
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] token   of the calling pump
-- ARGV[4] after   ms: only jobs that are due later than that
-- ARGV[5] least   bytes of a payload
-- ARGV[6] limit   most hints that one call looks at
-- ARGV[7] bytes   of records and bodies, after which a call returns
-- ARGV[8] carry   bytes: a body that has fewer is returned with its record
-- ARGV[9] level   only far slots of this level, or a lower one
-- Returns ok → an array: far slot, how many of its hints have been looked at, ...; number and record of each job, payload
--   included unless it is in body:<n> and has `carry` bytes or more
-- Returns closed → the pump that led the bucket before has thawed everything: nothing may go until it is opened
-- Returns lost → the caller does not lead the bucket; nothing changed
-- Changes: forgets how far it came in slots that are gone. What it has looked at is only noted by freeze: a call that is
--   repeated returns the same jobs
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include records

local token, least_bytes, limit, bytes = ARGV[3], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local carry, highest = tonumber(ARGV[8]), tonumber(ARGV[9])

if call('GET', KEYS[1]) ~= token then return { 'lost' } end

local walk, from_due_ms = prefix .. 'cold_walk', now_ms + tonumber(ARGV[4])

-- Payloads of a bucket that was just taken from a pump that thaws everything may go once it has been opened.
local closed = tonumber(call('HGET', prefix .. 'cold', 'closed') or -1)
if closed * PARTITION_MS >= from_due_ms then return { 'closed' } end

-- How many hints of each slot were looked at.
local looked = {}
local fields = call('HGETALL', walk)
for i = 1, #fields, 2 do looked[fields[i]] = tonumber(fields[i + 1]) or 0 end

local slots, reply = {}, { 'ok' }

local function may_freeze(job)
  if not job or job[STATE] ~= DELAYED or job[DUE_MS] < from_due_ms or has(job, COLD) then return false end
  return has(job, BODY_OUTSIDE) or #job[RECORD] - head_bytes(job) >= least_bytes
end

-- Looks at some hints of a slot from this one on. Returns how many there were.
local function look(slot, from)
  local numbers = call('LRANGE', prefix .. 'far:' .. slot, text('%d', from), text('%d', from + limit - 1))
  read_ahead(numbers)
  for i = 1, #numbers do
    local job = read(numbers[i])
    if may_freeze(job) then
      local record, body = job[RECORD], has(job, BODY_OUTSIDE) and prefix .. 'body:' .. numbers[i]
      local begin = body and call('GETRANGE', body, 0, carry - 1)
      if body and #begin == carry then
        -- A large body, which the caller fetches.
        bytes = bytes - call('STRLEN', body)
      elseif body then
        record = record .. begin
      end
      reply[#reply + 1], reply[#reply + 2] = tonumber(numbers[i]), record
      bytes = bytes - #record
      if bytes <= 0 then return i end
    end
  end
  return #numbers
end

-- When a slot that is looked at ends; 0 = it is not.
local function ends_ms(slot)
  local level, number = string.match(slot, '^([1-4]):(%d+)$')
  if not level or tonumber(level) > highest then return 0 end
  return (tonumber(number) + 1) * WIDTHS[tonumber(level)]
end

for _, slot in ipairs(call('ZRANGE', prefix .. 'slots', 0, -1)) do
  local was = looked[slot] or 0
  looked[slot] = nil
  if limit > 0 and bytes > 0 and ends_ms(slot) > from_due_ms then
    local hints = look(slot, was)
    local now_at = was + hints
    -- The slot has lost hints: all are looked at again.
    if hints == 0 and was > 0 and call('LLEN', prefix .. 'far:' .. slot) < was then now_at = 0 end
    if now_at ~= was then slots[#slots + 1], slots[#slots + 2] = slot, text('%d', now_at) end
    limit = limit - hints
  end
end
for slot in pairs(looked) do call('HDEL', walk, slot) end
table.insert(reply, 2, slots)
return reply
