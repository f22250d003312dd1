-- versions: for scripts that store the content of jobs. A version is the content that a call publishes, or that
-- waits for the end of a lease: header, extension, payload.
--- include transitions

-- The meaning of the header of a published version now: state, due time, expiry. Its due time is a delay; from 2^46
-- on, it is an instant above that. Jobs that count failures must start within their time to live after they are due; for
-- other jobs it begins at once.
local function times_of(flags, state, delay_ms, ttl_ms)
  local due_ms, expires_ms = now_ms, 0
  if state == DELAYED then
    due_ms = delay_ms < 2^46 and from_ms + delay_ms or delay_ms - 2^46
    if due_ms <= now_ms then state, due_ms = READY, now_ms end
  end
  if ttl_ms > 0 then
    expires_ms = ttl_ms + (bit.band(flags, COUNTS_FAILURES) ~= 0 and max(from_ms, due_ms) or from_ms)
  end
  return state, due_ms, expires_ms
end

-- Redis orders timers with the same due time by the text of their numbers. Numbers begin with seven digits, so this is
-- the order of publishing for nine million jobs, and later except where the number of digits changes.
local BEFORE_FIRST = 1000000

-- How many more jobs a queue may have if it may have `max_jobs`; done jobs do not count.
local function room_for(queue, max_jobs)
  local counts = queue and call('HMGET', prefix .. 'q:' .. queue, unpack(STATES, DELAYED, DEAD)) or {}
  for _, jobs in ipairs(counts) do max_jobs = max_jobs - max(0, tonumber(jobs) or 0) end
  return max_jobs
end

-- A chunk holds 100 jobs, or as many of one size as fit into 8 KiB together with the overhead of the hash.
local CHUNK, CHUNK_BYTES, FIELD_BYTES = 100, 8160, 6
-- A version that replaces another version in its chunk may be twice as large.
local REPLACED_BYTES = 2 * CHUNK_BYTES

-- Stores a payload as a body: an uploaded body, or these bytes.
local function store_body(body, payload, uploaded)
  if payload == '' then
    call('RENAME', uploaded, body)
    call('PERSIST', body)
  else
    call('SET', body, payload)
  end
end

-- The first number behind `last` that has room for a job with this header and payload. A body takes no room.
local function next_number(last, header, payload)
  local place, bytes = (last + 1) % CHUNK, #header + FIELD_BYTES
  if place == 0 or (place + 1) * (bytes + #payload) <= CHUNK_BYTES then return last + 1 end
  local is_outside = string.byte(header, 3) % 2 == 1
  if is_outside and (place + 1) * bytes <= CHUNK_BYTES then return last + 1 end
  return last + 1 - place + CHUNK
end

-- Stores what a call publishes as a new job with this number, as text. Returns its state, due time, nonce and flags.
local function store_new(queue, number, header, payload, uploaded)
  local _, state, flags, tries, attempt, _, _, delay_ms, ttl_ms, nonce = struct.unpack(HEADER, header)
  if flags % (2 * BODY_OUTSIDE) >= BODY_OUTSIDE then
    rarely().store_body(prefix .. 'body:' .. number, payload, uploaded)
    payload = ''
  end
  local due_ms, expires_ms = now_ms, 0
  if state == DELAYED or ttl_ms > 0 then state, due_ms, expires_ms = times_of(flags, state, delay_ms, ttl_ms) end
  if expires_ms > 0 then expire_later(number, expires_ms) end
  if state == DELAYED then hint(queue, number, due_ms) end
  local extension = #header > HEADER_BYTES and sub(header, HEADER_BYTES + 1) or ''
  write(number, struct.pack(HEADER, VERSION, state, flags, tries, attempt, queue, now_ms, due_ms, expires_ms, nonce)
    .. extension .. payload)
  return state, due_ms, nonce, flags
end

-- Outcomes of a publish with a key; RERUN is another one. Stored as a new job; the job with the key stays, has the new
-- content, was dead; the request is a repeated one. Refused: the key is taken, the idempotency key stands for another
-- request, the queue is full, or closed.
local CREATED, EXISTS, REPLACED, REVIVED, REPLAYED = 1, 2, 4, 5, 6
local KEY_TAKEN, KEY_REUSED, QUEUE_FULL, QUEUE_CLOSED, IS_DONE = 7, 8, 9, 10, 11

-- The content that a call publishes: header and payload of a job, and the key of the payload if it was uploaded ('').
local function version_of(header, payload, uploaded)
  local _, state, flags, tries, _, _, _, delay_ms, ttl_ms, nonce = struct.unpack(HEADER, header)
  local version = { header = header, extension = sub(header, HEADER_BYTES + 1), payload = payload, uploaded = uploaded,
    flags = flags, tries = tries, nonce = nonce }
  version.state, version.due_ms, version.expires_ms = times_of(flags, state, delay_ms, ttl_ms)
  return version
end

-- Whether a record of this length may be written in the place of the record of a job.
local function fits(number, bytes)
  return (number % CHUNK + 1) * (bytes + FIELD_BYTES) <= REPLACED_BYTES
end

-- Stores the payload of a version of a job as a body if it is too large for the record. Returns what follows the header,
-- the flags, and whether there is a body.
local function store_payload(version, number, body)
  local flags = bit.band(version.flags, 255 + PRIORITY_BITS)
  local bytes = HEADER_BYTES + #version.extension + #version.payload
  if bit.band(version.flags, BODY_OUTSIDE) == 0 and fits(number, bytes) then
    return version.extension .. version.payload, flags, false
  end
  rarely().store_body(body, version.payload, version.uploaded)
  return version.extension, flags + BODY_OUTSIDE, true
end

-- Makes a version the content of a job, whose number and state are set.
local function set_content(job, version)
  local body = prefix .. 'body:' .. job[NUMBER]
  local content, flags, has_body = store_payload(version, job[NUMBER], body)
  if has(job, BODY_OUTSIDE) and not has_body then call('DEL', body) end
  job[FLAGS] = bit.bor(flags, bit.band(job[FLAGS], LOGGED + AWAITED), bit.band(version.flags, AWAITED))
  job[TRIES], job[EXPIRES_MS] = version.tries, version.expires_ms
  job[RECORD] = sub(version.header, 1, HEADER_BYTES) .. content
  if job[EXPIRES_MS] > 0 then expire_later(job[NUMBER], job[EXPIRES_MS]) end
end

-- Gives a job that is not leased new content and a new due time. A ready job that stays ready keeps its place, unless it
-- is in another line now.
local function replace(job, version)
  local was, line = job[STATE], line_of(job[FLAGS], job[RECORD])
  if was == DEAD then changes_of(job[QUEUE]).unlisted = true end
  if was == DELAYED and version.state == READY then drop_timer(job) end
  set_content(job, version)
  if was == READY and version.state == READY then
    job[DUE_MS] = now_ms
    rarely().change_line(job, line)
  elseif was == DELAYED and version.state == DELAYED then
    postpone(job, version.due_ms)
  else
    if was == READY then unlist(changes_of(job[QUEUE]), line) end
    schedule(job, version.due_ms)
  end
  rewrite(job)
end

-- Lets a version wait for the end of the lease of a job.
local function wait_for_end(job, version)
  local body = prefix .. 'next_body:' .. job[NUMBER]
  local content, flags, has_body = store_payload(version, job[NUMBER], body)
  if not has_body then call('DEL', body) end
  call('SET', prefix .. 'next:' .. job[NUMBER], struct.pack(HEADER, VERSION, version.state, flags, version.tries, 0,
    job[QUEUE], job[CREATED_MS], version.due_ms, version.expires_ms, job[NONCE]) .. content)
  job[FLAGS] = bit.bor(bit.band(job[FLAGS], bit.bnot(CANCEL_REQUESTED)), NEXT_WAITS, bit.band(version.flags, AWAITED))
  rewrite(job)
end

-- Gives a job the version that waits for the end of its lease: its counters start again, its attempts continue. Returns
-- whether there is such a version.
local function start_next_version(job)
  local number = job[NUMBER]
  local next_key, body = prefix .. 'next:' .. number, prefix .. 'body:' .. number
  local version = call('GET', next_key)
  call('DEL', next_key)
  if not version or #version < HEADER_BYTES then return false end
  if has(job, BODY_OUTSIDE) then call('DEL', body) end
  local _, _, flags, tries, _, _, _, due_ms, expires_ms = struct.unpack(HEADER, version)
  local next_body = prefix .. 'next_body:' .. number
  if call('EXISTS', next_body) == 1 then call('RENAME', next_body, body) end
  drop_timer(job)
  -- The next version may have another group.
  leave(job)
  job[FLAGS], job[TRIES], job[EXPIRES_MS] = bit.bor(flags, bit.band(job[FLAGS], LOGGED + AWAITED)), tries, expires_ms
  job[RECORD] = version
  if expires_ms > 0 then expire_later(number, expires_ms) end
  enter_at(job, due_ms)
  rewrite(job)
  return true
end

-- Lets the end of a job be notified if these flags want that.
local function await_end(job, flags)
  if flags < AWAITED or job[FLAGS] >= AWAITED then return end
  job[FLAGS] = job[FLAGS] + AWAITED
  rewrite(job)
end

-- Publishes a job with a key that another job has; returns the outcome.
local function publish_existing(job, if_exists, version)
  if job[STATE] == DEAD then
    replace(job, version)
    return REVIVED
  elseif job[STATE] == LEASED and (if_exists == 'replace' or has(job, CANCEL_REQUESTED)) then
    wait_for_end(job, version)
    return RERUN
  elseif if_exists == 'keep' then
    if job[STATE] ~= DONE then await_end(job, version.flags) end
    return EXISTS
  end
  replace(job, version)
  return REPLACED
end

-- Ends a run as its producer has requested meanwhile: with the next version, or by deleting the job. Returns the
-- outcome; nil if nothing was requested.
local function end_as_requested(job)
  if has(job, NEXT_WAITS) and rarely().start_next_version(job) then return RERUN end
  if has(job, CANCEL_REQUESTED) then
    delete(job)
    return CANCELLED
  end
end
