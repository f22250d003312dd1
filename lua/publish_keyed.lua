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
-- Changes: adds and replaces jobs, deletes uploaded payloads, adds the queue if it is new; sends doorbell and alarm
-- Errors: those of scripts that write (prelude.lua), among them OOM at maxmemory
-- Since layout 2
-- Rarely calls: delete, find, publish_existing, version_of, first_request, remember, room_for, store_body, add_queue, drop_stale

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

-- The job with this key; nil if there is none. Also nil, and that job: it has expired, or is done and to be replaced.
local function existing(hash, if_exists)
  local job = hash and queue and keyed(queue, hash)
  if job and (expired(job) or job.state == DONE and if_exists == 'replace') then return nil, job end
  return job
end

local room = ARGV[4] == '' and math.huge or room_for(queue, tonumber(ARGV[4]))

-- Why a job is not stored; nil if it is. `job` is the job with its key.
local function refusal(job, if_exists)
  if not job then return room < 1 and 'queue_full' or nil end
  return if_exists == 'reject' and job.state ~= DEAD and 'key_taken' or nil
end

-- Jobs of an atomic call with the same key follow each other.
if atomic == '1' then
  local room_before, keys, requests = room, {}, {}
  for i = first_job, #ARGV, 4 do
    local hash, if_exists, repeated = key_hash(ARGV[i], struct.unpack('>H', ARGV[i], 3)), ARGV[i + 2], ARGV[i + 3]
    local number, _, _, request = nil, nil, nil, requests[sub(repeated, 1, 12)]
    if repeated ~= '' and not request then
      number, _, _, request = first_request(sub(repeated, 1, 12), window_ms)
    end
    local outcome
    if request then
      outcome = request ~= sub(repeated, 13) and 'key_reused' or nil
    elseif hash and keys[hash] then
      outcome = if_exists == 'reject' and 'key_taken' or nil
    else
      local job = existing(hash, if_exists)
      outcome = refusal(job, if_exists)
      if not job then room = room - 1 end
      -- One that is done stays, and may be replaced by a further job.
      if hash and not (job and job.state == DONE) then keys[hash] = true end
    end
    if outcome then return { 'refused', (i - first_job) / 4, outcome } end
    if repeated ~= '' then requests[sub(repeated, 1, 12)] = sub(repeated, 13) end
  end
  room = room_before
end

local seq, last

local function create(hash, i)
  queue = queue or add_queue(KEYS[1], name)
  local payload, number, state, due_ms, record = ARGV[i + 1], nil, nil, nil, nil
  if not seq then
    local most = (#ARGV - i + 1) / 4
    seq = call('INCRBY', prefix .. 'seq', most)
    last = max(seq - most, BEFORE_FIRST)
  end
  last, number, state, due_ms, record = store_new(queue, last, ARGV[i], payload, payload == '' and uploaded(i))
  local changes, job = changes_of(queue), unpack_header(number, record)
  -- A further job of the call may have the same key.
  jobs[number] = job
  changes[state], changes.arrivals = changes[state] + 1, (changes.arrivals or 0) + 1
  if state == READY then add(changes, 'ready', number) end
  if hash then call('HSET', key_index(hash), hash, number) end
  return job, due_ms
end

-- Publishes a job; returns the outcome, and unless it is refused the job and the time at which it is due next.
local function publish(i)
  local hash, if_exists = key_hash(ARGV[i], struct.unpack('>H', ARGV[i], 3)), ARGV[i + 2]
  local job, replaced = existing(hash, if_exists)
  local outcome = refusal(job, if_exists)
  if outcome then return outcome end
  if job then
    local version = version_of(ARGV[i], ARGV[i + 1], uploaded(i))
    outcome = publish_existing(job, if_exists, version)
    return outcome, job, outcome == 'rerun' and version.due_ms or next_due(job)
  end
  room = room - 1
  -- It would have the key of this one.
  if replaced then delete(replaced) end
  return 'created', create(hash, i)
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
  if repeated ~= '' then number, created_ms, nonce, first = first_request(hash, window_ms) end
  if number and first ~= request then
    report('key_reused', 0, 0, 0)
  elseif number then
    local job = find(queue, text('%d', number), nonce, created_ms)
    report('replayed', number, created_ms, nonce, job, next_due(job))
  else
    local outcome, job, due_ms = publish(i)
    if job then
      report(outcome, tonumber(job.number), job.created_ms, job.nonce, job, due_ms)
      if repeated ~= '' then remember(hash, window_ms, request, job) end
    else
      report(outcome, 0, 0, 0)
    end
  end
  -- A payload is not needed if its job was not stored.
  if ARGV[i + 1] == '' then call('DEL', uploaded(i)) end
end
if last ~= seq then call('SET', prefix .. 'seq', text('%d', last)) end
settle()
return reply
