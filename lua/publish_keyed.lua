#!lua
-- publish_keyed: stores jobs that have a key, which is unique in their queue, or an idempotency key.
-- KEYS[1] queues   hash: namespace/queue → queue number
-- ARGV[1] prefix   of the bucket's keys
-- ARGV[2] now      ms; '' = Redis's clock
-- ARGV[3] name     namespace/queue
-- ARGV[4] max_jobs the queue may have in this bucket with the new ones; '' = not limited
-- ARGV[5] window   how long a call with an idempotency key may be repeated, in ms
-- ARGV[6] atomic   1 = all jobs or none
-- ARGV[7] upload   name under which payloads were uploaded before the call; '' = none
-- ARGV[8] header   of the first job, as publish takes it
-- ARGV[9] payload  of the first job; '' = uploaded
-- ARGV[10] if_exists what happens to an unfinished job with its key: keep, replace or reject; '' = it has no key
-- ARGV[11] repeat  '' = no idempotency key; else its hash (12 bytes) and that of the request (8 bytes). Four values of each
--   further job follow
-- Returns ok → now_ms, then for each job: outcome, number, created (ms), nonce, state (0 = it is gone) and the time at which
--   the job is due next (ms; 0 = none: it is done, gone, or held and not to run again). Outcomes: created, exists, replaced, rerun (a version waits for the end of the lease), revived (it was dead),
--   replayed (a repeated request), key_taken, key_reused (another request with this idempotency key), queue_full. The
--   last three change nothing
-- Returns refused → index of the first job that prevents an atomic call, its outcome; nothing changed
-- Returns closed → the lane is closed; nothing changed
-- Returns missing → an uploaded payload does not exist, or has expired; nothing changed
-- Changes: adds and replaces jobs, adds the queue if it is new; sends doorbell and alarm
-- Errors: those of scripts that write (prelude.lua), among them OOM at maxmemory
-- Since layout 2

local name, window_ms, atomic, upload, first_job = ARGV[3], tonumber(ARGV[5]), ARGV[6], ARGV[7], 8

local function uploaded(i)
  return prefix .. 'upload:' .. upload .. ':' .. text('%d', (i - first_job) / 4)
end

for i = first_job, #ARGV, 4 do
  if ARGV[i + 1] == '' and call('EXISTS', uploaded(i)) == 0 then return { 'missing' } end
end

local known = call('HGET', KEYS[1], name)
local queue = tonumber(known)
if known and not queue then return { 'closed' } end

-- By hash of an idempotency key: the hash that has its entry. An entry is in the generation of its time, and is found in
-- that and the next one.
local generation = floor(now_ms / window_ms)

local function entries_of(hash, of_generation)
  return prefix .. 'idem:' .. text('%d:%d', of_generation, string.byte(hash) % 128)
end

-- Number, creation time, nonce and hash of the request with this idempotency key; nil if there was none.
local function first_request(hash)
  local entry = call('HGET', entries_of(hash, generation), hash) or call('HGET', entries_of(hash, generation - 1), hash)
  if entry then return struct.unpack('>I6I6Hc8', entry) end
end

local function remember(hash, request, job)
  local entries = entries_of(hash, generation)
  call('HSET', entries, hash, struct.pack('>I6I6Hc8', tonumber(job.number), job.created_ms, job.nonce, request))
  call('PEXPIRE', entries, text('%d', 2 * window_ms), 'NX')
end

-- The hash of the key of a job that is published; nil if it has none.
local function key_of(i)
  return option({ record = ARGV[i], flags = struct.unpack('>H', ARGV[i], 3) }, 'K')
end

-- The job with the key of a published one, as keyed() returns it; nil if it has expired, or is done and to be replaced.
local function existing(job, if_exists)
  if job and not expired(job) and not (job.state == DONE and if_exists == 'replace') then return job end
end

local room = ARGV[4] == '' and math.huge or room_for(queue, tonumber(ARGV[4]))

-- Why a job is not stored; nil if it is. `job` is the job with its key.
local function refusal(job, if_exists)
  if not job then return room < 1 and 'queue_full' or nil end
  return if_exists == 'reject' and job.state ~= DEAD and 'key_taken' or nil
end

-- The first job that prevents an atomic call, and why. Jobs of the call with the same key follow each other.
local function obstacle()
  local room_before, keys, requests = room, {}, {}
  for i = first_job, #ARGV, 4 do
    local hash, if_exists, repeated = key_of(i), ARGV[i + 2], ARGV[i + 3]
    local number, _, _, request = nil, nil, nil, requests[sub(repeated, 1, 12)]
    if repeated ~= '' and not request then number, _, _, request = first_request(sub(repeated, 1, 12)) end
    local outcome
    if request then
      outcome = request ~= sub(repeated, 13) and 'key_reused' or nil
    elseif hash and keys[hash] then
      outcome = if_exists == 'reject' and 'key_taken' or nil
    else
      local job = existing(hash and queue and keyed(queue, hash), if_exists)
      outcome = refusal(job, if_exists)
      if not job then room = room - 1 end
      -- One that is done stays, and may be replaced by a further job.
      if hash and not (job and job.state == DONE) then keys[hash] = true end
    end
    if outcome then return (i - first_job) / 4, outcome end
    if repeated ~= '' then requests[sub(repeated, 1, 12)] = sub(repeated, 13) end
  end
  room = room_before
end

if atomic == '1' then
  local i, outcome = obstacle()
  if i then return { 'refused', i, outcome } end
end

local seq = tonumber(call('GET', prefix .. 'seq') or BEFORE_FIRST)
local last = seq

local function add_queue()
  queue = call('HINCRBY', KEYS[1], '#', 1)
  call('HSET', KEYS[1], name, queue)
  call('HSET', prefix .. 'q:' .. queue, 'name', name)
  clean_up_later(text('b%d', queue / QUEUES_PER_BLOCK), now_ms + IDLE_MS)
end

local function create(hash, version)
  if not queue then add_queue() end
  last = next_number(last, stored_bytes(version))
  local number, changes = text('%d', last), changes_of(queue)
  local job = { number = number, state = version.state, flags = 0, attempt = 0, queue = queue, created_ms = now_ms,
    due_ms = version.due_ms, nonce = version.nonce }
  set_content(job, version)
  jobs[number] = job
  changes[job.state], changes.arrivals = changes[job.state] + 1, (changes.arrivals or 0) + 1
  if job.state == DELAYED then hint(queue, number, job.due_ms) else add(changes, 'ready', number) end
  rewrite(job)
  if hash then call('HSET', key_index(hash), hash, number) end
  return job
end

-- Publishes a job with a key that another job has; returns the outcome.
local function publish_existing(job, if_exists, version)
  if job.state == DEAD then
    replace(job, version)
    return 'revived'
  elseif job.state == LEASED and (if_exists == 'replace' or has(job, CANCEL_REQUESTED)) then
    wait_for_end(job, version)
    return 'rerun'
  elseif if_exists == 'keep' then
    return 'exists'
  end
  replace(job, version)
  return 'replaced'
end

-- Publishes a job; returns the outcome, and unless it is refused the job and the time at which it is due next.
local function publish(i)
  local hash, if_exists = key_of(i), ARGV[i + 2]
  local found = hash and queue and keyed(queue, hash)
  local job = existing(found, if_exists)
  local outcome = refusal(job, if_exists)
  if outcome then return outcome end
  local version = version_of(ARGV[i], ARGV[i + 1], uploaded(i))
  if job then
    outcome = publish_existing(job, if_exists, version)
    return outcome, job, outcome == 'rerun' and version.due_ms or next_due(job)
  end
  room = room - 1
  -- An expired job, and one that is done, would have the key of this one.
  if found then delete(found) end
  return 'created', create(hash, version), version.due_ms
end

local reply = { 'ok', now_ms }

local function report(outcome, number, created_ms, nonce, job, due_ms)
  local filled = #reply
  reply[filled + 1], reply[filled + 2], reply[filled + 3], reply[filled + 4] = outcome, number, created_ms, nonce
  reply[filled + 5], reply[filled + 6] = job and job.state or 0, due_ms or 0
end

for i = first_job, #ARGV, 4 do
  local repeated = ARGV[i + 3]
  local hash, request = sub(repeated, 1, 12), sub(repeated, 13)
  local number, created_ms, nonce, first
  if repeated ~= '' then number, created_ms, nonce, first = first_request(hash) end
  if number and first ~= request then
    report('key_reused', 0, 0, 0)
  elseif number then
    local job = find(queue, text('%d', number), nonce, created_ms)
    report('replayed', number, created_ms, nonce, job, next_due(job))
  else
    local outcome, job, due_ms = publish(i)
    if job then
      report(outcome, tonumber(job.number), job.created_ms, job.nonce, job, due_ms)
      if repeated ~= '' then remember(hash, request, job) end
    else
      report(outcome, 0, 0, 0)
    end
  end
end
if last ~= seq then call('SET', prefix .. 'seq', text('%d', last)) end
settle()
return reply
