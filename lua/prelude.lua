-- prelude: shared by all scripts. docs/redis-layout.md describes the keys.
-- Every script but barrier gets ARGV[1] prefix, with which every key of the bucket begins, and ARGV[2] now, in ms
-- ('' = Redis's clock; tests pass an explicit time). Blank lines separate the blocks of this file and of changes.lua. A
-- script is loaded with only the blocks that it uses in front of it: Redis runs the whole text at each call.
-- Job numbers are strings throughout, as Redis returns them and as key names need them. All other numbers are numbers.
-- A queue that does not exist in the bucket has no number; neither has one whose lane is closed there (tonumber = nil).
-- Returns, in every script: an array. Its first element names the outcome (ok, gone, …), values follow.
-- Errors of every script, which is then not executed: NOSCRIPT (load it and call again), LOADING, BUSY; on a cluster
--   MOVED, ASK, TRYAGAIN, CLUSTERDOWN. Of every script that writes: READONLY, MISCONF, NOREPLICAS, and OOM without the
--   flag allow-oom; it is not executed either. NOPERM and WRONGTYPE (a key has another type than in
--   docs/redis-layout.md) may end a script in the middle: what it wrote before stays.

local call, text, sub, floor = redis.call, string.format, string.sub, math.floor
local min, max = math.min, math.max

local prefix = ARGV[1]
local now_us
if ARGV[2] == '' then
  local time = call('TIME')
  now_us = time[1] * 1000000 + time[2]
else
  now_us = ARGV[2] * 1000
end
local now_ms = floor(now_us / 1000)
-- Durations count from the end of the current millisecond: rounded down, they would end up to 1 ms early.
local from_ms = ARGV[2] == '' and now_ms + 1 or now_ms

local DELAYED, READY, LEASED, DEAD = 1, 2, 3, 4

local STATES = { 'delayed', 'ready', 'leased', 'dead' }

local BODY_OUTSIDE = 2

local VERSION, HEADER, HEADER_BYTES = 1, '>BBHHI4I4I6I6I6H', 34

-- A far slot is loaded LEAD_MS before it begins; slots with due times before near_until_ms may be loaded already.
-- SLOT_MS is the default width; prelude.rs replaces it in scripts for a deployment with another width.
local SLOT_MS = 65536
local LEAD_MS = SLOT_MS
local near_until_ms = (floor((now_ms + LEAD_MS) / SLOT_MS) + 1) * SLOT_MS

local function lane_row(lanes, name)
  local open, used, epoch = string.match(call('HGET', lanes, name) or '1 1 0', '^(%d+) (%d+) (%d+)$')
  return tonumber(open), tonumber(used), tonumber(epoch)
end

-- A queue with one lane has no row.
local function keep_lane_row(lanes, name, open, used, epoch)
  if used == 1 then return call('HDEL', lanes, name) end
  call('HSET', lanes, name, text('%d %d %.0f', open, used, epoch))
end

-- The number of a queue in a bucket (0 = none), and the epoch with which its lane there is closed (nil = it is open).
local function queue_in_bucket(value)
  local epoch, queue = string.match(value or '', '^closed (%d+) (%d+)$')
  return tonumber(queue or value) or 0, tonumber(epoch)
end

local chunks = prefix .. 'c:'

-- Jobs that this call has read, by number; false = there is no such job.
local jobs = {}

local function unpack_header(number, record)
  if not record or #record < HEADER_BYTES then return false end
  local version, state, flags, tries, attempt, queue, created_ms, due_ms, expires_ms, nonce =
    struct.unpack(HEADER, record)
  if version ~= VERSION or not STATES[state] then return false end
  return { number = number, record = record, state = state, flags = flags, tries = tries, attempt = attempt,
    queue = queue, created_ms = created_ms, due_ms = due_ms, expires_ms = expires_ms, nonce = nonce }
end

-- Most values of one command: Lua's unpack is limited to about 8,000. Even, so that a field stays with its value.
local VALUES_MAX = 1000

-- Reads jobs into the cache of read(), adjacent ones of a chunk with one command.
local function read_ahead(numbers)
  local at, last = 1, #numbers
  while at <= last do
    local from, chunk, fields = at, sub(numbers[at], 1, -3), {}
    repeat
      fields[#fields + 1] = sub(numbers[at], -2)
      at = at + 1
    until at > last or #fields == VALUES_MAX or sub(numbers[at], 1, -3) ~= chunk
    local records = call('HMGET', chunks .. chunk, unpack(fields))
    for i = 1, #fields do
      local number = numbers[from + i - 1]
      -- This call may have changed a job since it read it.
      if jobs[number] == nil then jobs[number] = unpack_header(number, records[i]) end
    end
  end
end

-- The job with this number; false if there is none.
local function read(number)
  local job = jobs[number]
  if job == nil then
    job = unpack_header(number, call('HGET', chunks .. sub(number, 1, -3), sub(number, -2)))
    jobs[number] = job
  end
  return job
end

-- The job of a hint in the list of a state and queue; nil if its record does not agree: the hint is stale.
local function hinted(number, state, queue)
  local job = read(number)
  if job and job.state == state and job.queue == queue then return job end
end

-- Most far hints that one call reads to find those of a queue.
local FAR_MAX = 1000

-- Whether a far hint names a job of this queue, and whether all far hints of the bucket were read.
local function far_jobs(queue)
  local far_left = FAR_MAX
  for _, slot in ipairs(call('ZRANGE', prefix .. 'slots', 0, FAR_MAX)) do
    local hints = call('LRANGE', prefix .. 'far:' .. slot, 0, far_left)
    far_left = far_left - max(1, #hints)
    if far_left < 0 then return false, false end
    read_ahead(hints)
    for _, number in ipairs(hints) do
      local job = read(number)
      if job and job.queue == queue then return true, false end
    end
  end
  return false, true
end

local function expired(job)
  return job.expires_ms > 0 and job.expires_ms <= now_ms
end

-- The job of a queue with this id, expired or not; nil if there is none. All parts of the id must match the record.
local function stored(queue, number, nonce, created_ms)
  local job = read(number)
  if job and job.queue == queue and job.nonce == tonumber(nonce) and job.created_ms == tonumber(created_ms) then
    return job
  end
end

-- The same, without expired jobs.
local function find(queue, number, nonce, created_ms)
  local job = stored(queue, number, nonce, created_ms)
  if job and not expired(job) then return job end
end

-- Header and payload in one string. A body of more than `limit` bytes is left out, since large strings are slow in
-- scripts: the caller gets the header and fetches the body with GET.
local function whole(job, limit)
  if bit.band(job.flags, BODY_OUTSIDE) == 0 then return job.record end
  local body = prefix .. 'body:' .. job.number
  if call('STRLEN', body) > limit then return job.record end
  return job.record .. (call('GET', body) or '')
end
