#!lua
-- publish_keyed: stores jobs that have a key, which is unique in their queue, or an idempotency key.
-- KEYS[1] queues   hash: namespace/queue → queue number
-- ARGV[1] prefix   of the bucket's keys
-- ARGV[2] now      ms; '' = Redis's clock
-- ARGV[3] name     namespace/queue
-- ARGV[4] max_jobs the queue may have in this bucket with the new ones; '' = not limited; closed = it takes no jobs, and only
--   repeated requests are answered; ask = only jobs that it has are changed: new ones are stored in another lane
-- ARGV[5] window   how long a call with an idempotency key may be repeated, in ms
-- ARGV[6] atomic   1 = all jobs or none
-- ARGV[7] upload   name under which payloads were uploaded before the call; '' = none
-- ARGV[8] max_queues that the namespace may have in this bucket
-- ARGV[9] placement of the keys, with ask also the new floor of the lane
-- ARGV[10] header  of the first job, as publish takes it
-- ARGV[11] payload of the first job; '' = uploaded
-- ARGV[12] if_exists what happens to an unfinished job with its key: keep, replace or reject; '' = it has no key
-- ARGV[13] repeat  '' = no idempotency key; else its hash (12 bytes) and the hash of the request (8 bytes). Four values of each
--   further job follow
-- Returns ok → now_ms, then 22 bytes for each job in one string: outcome (1 byte), number (6), created (ms, 6), nonce (2),
--   state (1; 0 = it is gone) and the time at which it is due next (ms, 6; 0 = none: it is done, gone, or held and not to
--   run again). Outcomes: 1 = created, 2 = exists, 3 = rerun (a version waits for the end of the lease), 4 = replaced, 5 =
--   revived (it was dead), 6 = replayed (a repeated request), 7 = the key is taken, 8 = the idempotency key stands for
--   another request, 9 = the queue is full, or with ask has no such job, 10 = it is closed, 11 = with ask and replace: it is
--   done, and keeps its key until replace_done is called. The last five change nothing
-- Returns refused → index of the first job that prevents an atomic call, its outcome; no job changed
-- Returns closed → the lane is closed; nothing changed
-- Returns stale → the floor of the lane, which refuses the placement; nothing changed
-- Returns namespace_full → the queue is new, and its namespace has max_queues queues in this bucket; nothing changed
-- Returns missing → an uploaded payload does not exist, or has expired; nothing changed
-- Changes: adds and replaces jobs, deletes uploaded payloads, adds the queue if it is new; the floor; sends doorbell and alarm
-- Errors: the errors of scripts that write (prelude.lua), among them OOM at maxmemory
-- Since layout 2
--- include placements, changes, versions, idempotency, outcomes, settle

local name, window_ms, atomic, upload, first_job = ARGV[3], tonumber(ARGV[5]), ARGV[6], ARGV[7], 10

local function uploaded(i)
  return prefix .. 'upload:' .. upload .. ':' .. text('%d', (i - first_job) / 4)
end

for i = first_job, #ARGV, 4 do
  if ARGV[i + 1] == '' and call('EXISTS', uploaded(i)) == 0 then return { 'missing' } end
end

local known, floor_of_lane = unpack(call('HMGET', KEYS[1], name, '@' .. name))
if floor_of_lane and rarely().is_stale(ARGV[9], floor_of_lane) then return { 'stale', floor_of_lane } end
local queue, is_closed, asks = tonumber(known), ARGV[4] == 'closed', ARGV[4] == 'ask'
if known and not queue and not asks and not is_closed then return { 'closed' } end
if asks then rarely().raise_floor(KEYS[1], name, ARGV[9], floor_of_lane) end

-- Hashes of keys, and of idempotency keys, of jobs that this call has stored.
local stored_here = {}
-- With ask: hashes of keys whose jobs are done and to be replaced. To later jobs of the call they are replaced already.
local done_here = {}

-- The job with this key; nil if there is none. Also nil, and that job: it has expired, or is done and to be replaced.
local function existing(hash, if_exists)
  if stored_here[hash] then settle_records() end
  local job = queue and keyed(queue, hash)
  if job and not expired(job) and not (job[STATE] == DONE and (if_exists == 'replace' or done_here[hash])) then return job end
  if job and asks then done_here[hash] = true end
  return nil, job or nil
end

if not queue and not is_closed and not asks and rarely().namespace_is_full(KEYS[1], name, ARGV[8]) then
  return { 'namespace_full' }
end
local room = asks and 0 or (ARGV[4] == '' or is_closed) and math.huge or rarely().room_for(queue, tonumber(ARGV[4]))

-- Why a job is not stored; nil if it is. `job` is the job with its key.
local function refusal(job, if_exists)
  if is_closed then return QUEUE_CLOSED end
  if not job then return room < 1 and QUEUE_FULL or nil end
  return if_exists == 'reject' and job[STATE] ~= DEAD and KEY_TAKEN or nil
end

-- Jobs of an atomic call with the same key follow each other. With ask, all of them are here, or none is.
if atomic == '1' then
  local room_before, keys, requests, absent_at, has_some = room, {}, {}, nil, false
  for i = first_job, #ARGV, 4 do
    local hash, if_exists, repeated = key_hash(ARGV[i], struct.unpack('>H', ARGV[i], 3)), ARGV[i + 2], ARGV[i + 3]
    local number, _, _, request = nil, nil, nil, requests[sub(repeated, 1, 12)]
    if repeated ~= '' and not request then
      number, _, _, request = rarely().first_request(sub(repeated, 1, 12), window_ms)
    end
    local outcome
    if request then
      outcome = request ~= sub(repeated, 13) and KEY_REUSED or nil
    elseif hash and keys[hash] and not is_closed then
      outcome = if_exists == 'reject' and KEY_TAKEN or nil
    else
      local job = hash and existing(hash, if_exists)
      outcome = refusal(job, if_exists)
      if not job then room = room - 1 end
      -- One that is done stays, and may be replaced by a further job.
      if hash and not (job and job[STATE] == DONE) and not (asks and not job) then keys[hash] = true end
    end
    local is_absent = asks and outcome == QUEUE_FULL
    if is_absent then
      absent_at = absent_at or i
    elseif outcome then
      return { 'refused', (i - first_job) / 4, outcome }
    else
      has_some = true
      if repeated ~= '' then requests[sub(repeated, 1, 12)] = sub(repeated, 13) end
    end
  end
  room = room_before
  if absent_at and has_some then return { 'refused', (absent_at - first_job) / 4, QUEUE_FULL } end
end

local seq, last

local function number_for(i)
  if not seq then
    local most = (#ARGV - i + 1) / 4
    seq = call('INCRBY', prefix .. 'seq', most)
    last = max(seq - most, BEFORE_FIRST)
  end
  return next_number(last, ARGV[i], ARGV[i + 1])
end

local function create(i, number, hash)
  queue = queue or rarely().add_queue(KEYS[1], name)
  last = number
  local payload, field = ARGV[i + 1], text('%d', number)
  local state, due_ms, nonce, flags = store_new(queue, field, ARGV[i], payload, payload == '' and uploaded(i))
  local changes = changes_of(queue)
  changes[state], changes.arrivals = changes[state] + 1, (changes.arrivals or 0) + 1
  if state == READY then add_ready(changes, field, line_of(flags, ARGV[i])) end
  if hash then stored_here[hash] = true end
  room = room - 1
  report(CREATED, number, now_ms, nonce, state, due_ms)
  return number, now_ms, nonce
end

-- Publishes a job whose key is in the index. Returns number, creation time and nonce of the job; nil if it is refused.
local function publish_known(i, hash, if_exists)
  local job, replaced = existing(hash, if_exists)
  local outcome = refusal(job, if_exists)
  if replaced then
    -- Nobody knows yet whether another lane stores the new job.
    if asks and not expired(replaced) then return report_job(IS_DONE, replaced, 0) end
    if asks or not outcome then rarely().replace_done(replaced) end
  end
  if outcome then return refuse(outcome) end
  if not job then
    local number = number_for(i)
    call('HSET', key_index(hash), hash, text('%d', number))
    return create(i, number, hash)
  end
  local version = rarely().version_of(ARGV[i], ARGV[i + 1], uploaded(i))
  outcome = rarely().publish_existing(job, if_exists, version)
  report_job(outcome, job, outcome == RERUN and version.due_ms or next_due(job))
  return tonumber(job[NUMBER]), job[CREATED_MS], job[NONCE]
end

-- Publishes a job. Returns number, creation time and nonce of the job that there is now; nil if it is refused.
local function publish(i)
  if is_closed then return refuse(QUEUE_CLOSED) end
  local hash, if_exists = key_hash(ARGV[i], struct.unpack('>H', ARGV[i], 3)), ARGV[i + 2]
  if room < 1 then
    if hash then return publish_known(i, hash, if_exists) end
    return refuse(QUEUE_FULL)
  end
  -- Most keys are new: the command that adds one to the index finds that out.
  local number = number_for(i)
  if hash and call('HSETNX', key_index(hash), hash, text('%d', number)) == 0 then
    return publish_known(i, hash, if_exists)
  end
  return create(i, number, hash)
end

for i = first_job, #ARGV, 4 do
  local repeated = ARGV[i + 3]
  if repeated == '' then
    publish(i)
  else
    local hash, request = sub(repeated, 1, 12), sub(repeated, 13)
    local number, created_ms, nonce, first = rarely().first_request(hash, window_ms)
    if number then
      if stored_here[hash] then settle_records() end
      if first == request then rarely().replay(queue, ARGV[i], number, created_ms, nonce) else refuse(KEY_REUSED) end
    else
      number, created_ms, nonce = publish(i)
      if number then
        stored_here[hash] = true
        rarely().remember(hash, window_ms, request, number, created_ms, nonce)
      end
    end
  end
  -- A payload is not needed if its job was not stored.
  if ARGV[i + 1] == '' then call('DEL', uploaded(i)) end
end
if last ~= seq then call('SET', prefix .. 'seq', text('%d', last)) end
settle()
return { 'ok', now_ms, table.concat(results) }
