-- prelude: stands before every script of a bucket; docs/redis-layout.md describes the keys.
-- Every script is passed ARGV[1] prefix, which begins every key of the bucket, and ARGV[2] now, in ms
-- ('' = Redis's clock; tests pass an explicit one). A script that changes jobs ends with settle().

local prefix = ARGV[1]
local now_us
if ARGV[2] == '' then
  local time = redis.call('TIME')
  now_us = time[1] * 1000000 + time[2]
else
  now_us = ARGV[2] * 1000
end
local now_ms = math.floor(now_us / 1000)
-- Durations count from the end of the running millisecond: rounded down, they would end up to 1 ms early.
local from_ms = math.ceil(now_us / 1000)

local DELAYED, READY, LEASED, DEAD = 1, 2, 3, 4
local STATES = { 'delayed', 'ready', 'leased', 'dead' }
local BODY_OUTSIDE = 2
local VERSION, HEADER, HEADER_BYTES = 1, '>BBHHI4I4I6I6I6H', 34
local CHUNK, SLOT_MS, LEAD_MS = 64, 65536, 65536

-- Counts, arrivals and calls for the pump gather here and are written once per call by settle().
local counts, arrivals, calls = {}, {}, {}

local function count(queue, state, change)
  local of_queue = counts[queue] or {}
  of_queue[state] = (of_queue[state] or 0) + change
  counts[queue] = of_queue
end

local function pack(job)
  return struct.pack(HEADER, VERSION, job.state, job.flags, job.tries, job.attempt, job.queue,
    job.created_ms, job.due_ms, job.expires_ms, job.nonce)
end

local function unpack_header(record)
  if not record or #record < HEADER_BYTES then return nil end
  local job = {}
  job.version, job.state, job.flags, job.tries, job.attempt, job.queue,
    job.created_ms, job.due_ms, job.expires_ms, job.nonce = struct.unpack(HEADER, record)
  if job.version ~= VERSION or not STATES[job.state] then return nil end
  job.record = record
  return job
end

local function place(job, number)
  job.number, job.chunk, job.field = number, math.floor(number / CHUNK), number % CHUNK
end

-- The job with this number, or nil.
local function read(number)
  number = tonumber(number)
  local job = unpack_header(redis.call('HGET', prefix .. 'c:' .. math.floor(number / CHUNK), number % CHUNK))
  if job then place(job, number) end
  return job
end

-- The job that a hint in the list of a state and queue stands for, or nil if the hint is stale: the
-- record is the truth.
local function hinted(number, state, queue)
  local job = read(number)
  if job and job.state == state and job.queue == queue then return job end
end

local function expired(job)
  return job.expires_ms > 0 and job.expires_ms <= now_ms
end

-- The live job of a queue that an id names, or nil. All parts of the id must be the record's.
local function find(queues, name, number, nonce, created_ms)
  local job = read(number)
  if job and job.queue == tonumber(redis.call('HGET', queues, name)) and job.nonce == tonumber(nonce)
    and job.created_ms == tonumber(created_ms) and not expired(job) then
    return job
  end
end

local function write(job)
  job.record = pack(job) .. string.sub(job.record, HEADER_BYTES + 1)
  redis.call('HSET', prefix .. 'c:' .. job.chunk, job.field, job.record)
end

-- Header and payload in one string. A payload outside of its record that has more than `limit` bytes stays
-- behind, since large strings are slow in scripts: the header comes alone, and the caller gets the rest.
local function whole(job, limit)
  if bit.band(job.flags, BODY_OUTSIDE) == 0 then return job.record end
  local body = prefix .. 'body:' .. job.number
  if redis.call('STRLEN', body) > limit then return job.record end
  return job.record .. (redis.call('GET', body) or '')
end

-- Deletes the job with all that belongs to it, except far hints and list entries: those are dropped
-- when they are touched.
local function delete(job)
  redis.call('HDEL', prefix .. 'c:' .. job.chunk, job.field)
  if bit.band(job.flags, BODY_OUTSIDE) ~= 0 then redis.call('DEL', prefix .. 'body:' .. job.number) end
  if job.state == DELAYED or job.state == LEASED then redis.call('ZREM', prefix .. 'near', job.number) end
  if job.expires_ms > 0 and redis.call('EXISTS', prefix .. 'c:' .. job.chunk) == 0 then
    redis.call('ZREM', prefix .. 'expiry', job.chunk)
  end
  count(job.queue, job.state, -1)
end

-- A far hint is number * 65536 + offset in decimal. Lua counts exactly to 2^53 only, so the number is
-- multiplied in two parts of seven digits.
local function pack_far(number, offset)
  local low = (number % 1e7) * SLOT_MS + offset
  local high = math.floor(number / 1e7) * SLOT_MS + math.floor(low / 1e7)
  if high == 0 then return string.format('%.0f', low) end
  return string.format('%.0f%07.0f', high, low % 1e7)
end

local function unpack_far(hint)
  local high, low = tonumber(string.sub(hint, 1, -8)) or 0, tonumber(string.sub(hint, -7))
  local rest = (high % SLOT_MS) * 1e7 + low
  return math.floor(high / SLOT_MS) * 1e7 + math.floor(rest / SLOT_MS), rest % SLOT_MS
end

-- When a far slot is loaded: ahead of its time.
local function loaded_at_ms(slot)
  return slot * SLOT_MS - LEAD_MS
end

local function is_near(slot)
  return loaded_at_ms(slot) <= now_ms
end

-- Notes that a verb of the pump has work in this bucket at a moment that may be earlier than it knows.
local function call_for(verb, at_ms)
  if not calls[verb] or at_ms < calls[verb] then calls[verb] = at_ms end
end

-- The timer rule: whoever changes due_ms adds a hint, to near if its slot may be loaded already, else far.
local function hint(job)
  local slot = math.floor(job.due_ms / SLOT_MS)
  if is_near(slot) then
    redis.call('ZADD', prefix .. 'near', job.due_ms, job.number)
    call_for('move_due', job.due_ms)
  elseif redis.call('RPUSH', prefix .. 'far:' .. slot, pack_far(job.number, job.due_ms % SLOT_MS)) == 1 then
    redis.call('ZADD', prefix .. 'slots', loaded_at_ms(slot), slot)
    call_for('load_slot', loaded_at_ms(slot))
  end
end

-- Registers when the sweep has to look at the job's chunk.
local function expire_later(job)
  if job.expires_ms == 0 then return end
  if redis.call('ZADD', prefix .. 'expiry', 'LT', 'CH', job.expires_ms, job.chunk) == 1 then
    call_for('sweep', job.expires_ms)
  end
end

-- Makes a job ready at the tail of its queue. The caller writes the record.
local function arrive(job)
  job.state = READY
  count(job.queue, READY, 1)
  local of_queue = arrivals[job.queue] or {}
  of_queue[#of_queue + 1] = job.number
  arrivals[job.queue] = of_queue
end

-- Only a damaged record names a queue that has no name: it must not end the call, which serves other jobs too.
local function ring(queue)
  local name = redis.call('HGET', prefix .. 'q:' .. queue, 'name')
  if name then redis.call('PUBLISH', prefix .. 'bell', name) end
end

-- Tells the pump when a verb has work before all that it had: its index is scored by when it has work.
local function alarm(verb, index)
  local at_ms = calls[verb]
  if not at_ms then return end
  local head = redis.call('ZRANGE', prefix .. index, 0, 0, 'WITHSCORES')
  if tonumber(head[2]) == at_ms then
    redis.call('PUBLISH', prefix .. 'alarm', verb .. ' ' .. math.max(0, at_ms - now_ms))
  end
end

-- Writes counts and arrivals, rings doorbells, raises alarms.
local function settle()
  for queue, changes in pairs(counts) do
    for state, change in pairs(changes) do
      local left = change ~= 0 and redis.call('HINCRBY', prefix .. 'q:' .. queue, STATES[state], change)
      -- With no job left in that state every hint in its list is stale.
      if left == 0 and (state == READY or state == DEAD) then
        redis.call('DEL', prefix .. STATES[state] .. ':' .. queue)
      end
    end
  end
  for queue, numbers in pairs(arrivals) do
    if redis.call('RPUSH', prefix .. 'ready:' .. queue, unpack(numbers)) == #numbers then ring(queue) end
  end
  alarm('move_due', 'near')
  alarm('load_slot', 'slots')
  alarm('sweep', 'expiry')
end
