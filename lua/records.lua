-- records: for all scripts that read jobs.
--- include prelude

local chunks = prefix .. 'c:'

-- Jobs that this call has read, by number; false = there is no such job.
local jobs = {}

-- Fields of a job. It is an array, as a table with names costs several times as much to make.
local NUMBER, RECORD, LAYOUT, STATE, FLAGS, TRIES, ATTEMPT, QUEUE = 1, 2, 3, 4, 5, 6, 7, 8
local CREATED_MS, DUE_MS, EXPIRES_MS, NONCE = 9, 10, 11, 12

-- The job of a record; false if there is none, or it is damaged.
local function unpack_header(number, record)
  if not record or #record < HEADER_BYTES then return false end
  local job = { number, record, struct.unpack(HEADER, record) }
  return job[LAYOUT] == VERSION and STATES[job[STATE]] and job or false
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

-- The group in a record, or in a header that is published: the two halves of its hash, as lines name them; nil if there is
-- none. Before it there may be a key.
local function group_of(flags, record)
  if flags % (2 * GROUPED) < GROUPED then return end
  local at = HEADER_BYTES + 2
  if sub(record, at, at) == 'K' then at = at + 13 end
  if sub(record, at, at) == 'G' and #record >= at + 8 then return text('%d:%d', struct.unpack('>I4I4', record, at + 1)) end
end

local function other_line(flags, record)
  local priority, group = min(floor(flags / PRIORITY) % 8, PRIORITY_MAX), group_of(flags, record)
  if group then return text(':%d:%s', priority, group) end
  return priority == 0 and '' or text(':%d', priority)
end

-- The line of a ready job with these flags and this record, or header (lines.lua). The first line of a queue is ''.
local function line_of(flags, record)
  if flags % ABOVE_PRIORITY < PRIORITY and flags % (2 * GROUPED) < GROUPED then return '' end
  return rarely().other_line(flags, record)
end

-- The job of a hint in the list of a state and queue; nil if its record does not agree: the hint is stale. Of ready jobs
-- also nil if they belong to another line than this one, if one is given.
local function hinted(number, state, queue, line)
  local job = read(number)
  if job and job[STATE] == state and job[QUEUE] == queue and (not line or line_of(job[FLAGS], job[RECORD]) == line) then
    return job
  end
end

-- Most far hints that one call reads to find the hints of a queue.
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
      if job and job[QUEUE] == queue then return true, false end
    end
  end
  return false, true
end

-- Whether a job has this flag, a power of two.
local function has(job, flag)
  return job[FLAGS] % (2 * flag) >= flag
end

-- Length of header and extension of a job.
local function head_bytes(job)
  return HEADER_BYTES + (has(job, EXTENDED) and 1 + (string.byte(job[RECORD], HEADER_BYTES + 1) or 0) or 0)
end

-- A field of the extension of a job; nil if it has none. docs/redis-layout.md (Record) has the letters and lengths.
local LENGTHS = { K = 12, G = 8, L = 4, A = 2, T = 4 }
-- In place of the number of retry delays: they grow.
local GROWING = 255
local function option(job, letter)
  local record, at = job[RECORD], HEADER_BYTES + 2
  local last = has(job, EXTENDED) and head_bytes(job) or 0
  while at < last do
    local found = sub(record, at, at)
    local delays = string.byte(record, at + 1) or 0
    local length = LENGTHS[found] or 3 + (delays == GROWING and 20 or 6 * delays)
    if found == letter then return sub(record, at + 1, at + length) end
    at = at + 1 + length
  end
end

-- A duration of a job that has its own: L = the length of its lease, T = how long it is kept once it is done. In ms.
local function own_ms(job, letter, default_ms)
  local own = option(job, letter)
  return own and struct.unpack('>I4', own) or default_ms
end

-- The hash of the key in a record, or in a header that is published; nil if there is none, or it is cut. It is the first
-- field of an extension.
local function key_hash(record, flags)
  if flags % (2 * EXTENDED) >= EXTENDED and sub(record, HEADER_BYTES + 2, HEADER_BYTES + 2) == 'K' then
    local hash = sub(record, HEADER_BYTES + 3, HEADER_BYTES + 14)
    return #hash == 12 and hash or nil
  end
end

-- The hash with the entries of keys that share its first byte, modulo the number of these hashes.
local function key_index(hash)
  return text('%sk:%d', prefix, string.byte(hash) % 128)
end

local function expired(job)
  return job[EXPIRES_MS] > 0 and job[EXPIRES_MS] <= now_ms
end

-- The job of a queue with this id, expired or not; nil if there is none. All parts of the id must match the record.
local function stored(queue, number, nonce, created_ms)
  local job = read(number)
  if job and job[QUEUE] == queue and job[NONCE] == tonumber(nonce) and job[CREATED_MS] == tonumber(created_ms) then
    return job
  end
end

-- The same, without expired jobs.
local function find(queue, number, nonce, created_ms)
  local job = stored(queue, number, nonce, created_ms)
  if job and not expired(job) then return job end
end

-- The job of a queue with this key; nil if there is none. An entry of the index counts only if the record agrees.
local function keyed(queue, hash)
  local number = call('HGET', key_index(hash), hash)
  local job = number and read(number)
  if job and job[QUEUE] == queue and key_hash(job[RECORD], job[FLAGS]) == hash then return job end
end

-- Header and payload in one string. A body of more than `limit` bytes is left out, since large strings are slow in
-- scripts: the caller gets the header and fetches the body with GET.
local function whole(job, limit)
  if not has(job, BODY_OUTSIDE) then return job[RECORD] end
  local body = prefix .. 'body:' .. job[NUMBER]
  if call('STRLEN', body) > limit then return job[RECORD] end
  return job[RECORD] .. (call('GET', body) or '')
end
