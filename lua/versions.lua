-- versions: shared by scripts that store the content of jobs; it follows changes.lua. A version is what a call publishes, or what
-- waits for the end of a lease: header, extension, payload.

-- What the header of a version that is published means now: state, due time, expiry. Its due time is a delay; from 2^46
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

-- When a job is due next, in ms; 0 if it is done, or a consumer holds it.
local function next_due(job)
  return job and job.state ~= LEASED and job.state ~= DONE and job.due_ms or 0
end

-- Redis orders timers with the same due time by the text of their numbers. Numbers begin with seven digits, so this is
-- the order of publishing for nine million jobs, and later except where the number of digits changes.
local BEFORE_FIRST = 1000000

-- How many more jobs a queue may have if it may have `max_jobs`; those that are done do not count.
local function room_for(queue, max_jobs)
  local counts = queue and call('HMGET', prefix .. 'q:' .. queue, unpack(STATES, DELAYED, DEAD)) or {}
  for _, jobs in ipairs(counts) do max_jobs = max_jobs - max(0, tonumber(jobs) or 0) end
  return max_jobs
end

-- A chunk holds 100 jobs, or as many of one size as fit into 8 KiB together with the overhead of the hash.
local CHUNK, CHUNK_BYTES, FIELD_BYTES = 100, 8160, 6
-- A version that replaces another one in its chunk may be twice as large.
local REPLACED_BYTES = 2 * CHUNK_BYTES

-- Stores a payload as a body: one that was uploaded, or these bytes.
local function store_body(body, payload, uploaded)
  if payload == '' then
    call('RENAME', uploaded, body)
    call('PERSIST', body)
  else
    call('SET', body, payload)
  end
end

-- Stores what a call publishes as a new job, with the first number behind `last` that has room. Returns its number, twice:
-- for the next call and as text; its state, due time and record.
local function store_new(queue, last, header, payload, uploaded)
  local _, state, flags, tries, attempt, _, _, delay_ms, ttl_ms, nonce = struct.unpack(HEADER, header)
  local is_outside = flags % (2 * BODY_OUTSIDE) >= BODY_OUTSIDE
  last = last + 1
  local place, bytes = last % CHUNK, #header + (is_outside and 0 or #payload)
  if place > 0 and (place + 1) * (bytes + FIELD_BYTES) > CHUNK_BYTES then last = last - place + CHUNK end
  local number = text('%d', last)
  if is_outside then
    store_body(prefix .. 'body:' .. number, payload, uploaded)
    payload = ''
  end
  local due_ms, expires_ms
  state, due_ms, expires_ms = times_of(flags, state, delay_ms, ttl_ms)
  if expires_ms > 0 then expire_later(number, expires_ms) end
  if state == DELAYED then hint(queue, number, due_ms) end
  local record = struct.pack(HEADER, VERSION, state, flags, tries, attempt, queue, now_ms, due_ms, expires_ms, nonce)
    .. sub(header, HEADER_BYTES + 1) .. payload
  write(number, record)
  return last, number, state, due_ms, record
end

-- What a call publishes: header and payload of a job, and the key of the payload if it was uploaded ('').
local function version_of(header, payload, uploaded)
  local _, state, flags, tries, _, _, _, delay_ms, ttl_ms, nonce = struct.unpack(HEADER, header)
  local version = { header = header, extension = sub(header, HEADER_BYTES + 1), payload = payload, uploaded = uploaded,
    flags = flags, tries = tries, nonce = nonce }
  version.state, version.due_ms, version.expires_ms = times_of(flags, state, delay_ms, ttl_ms)
  return version
end

-- Stores the payload of a version of a job as a body if it is too large for the record. Returns what follows the header,
-- the flags, and whether there is a body.
local function store_payload(version, number, body)
  local flags = bit.band(version.flags, 255)
  local bytes = HEADER_BYTES + #version.extension + #version.payload
  if bit.band(version.flags, BODY_OUTSIDE) == 0 and (number % CHUNK + 1) * (bytes + FIELD_BYTES) <= REPLACED_BYTES then
    return version.extension .. version.payload, flags, false
  end
  store_body(body, version.payload, version.uploaded)
  return version.extension, flags + BODY_OUTSIDE, true
end

-- Makes a version the content of a job, whose number and state are set.
local function set_content(job, version)
  local body = prefix .. 'body:' .. job.number
  local content, flags, has_body = store_payload(version, job.number, body)
  if has(job, BODY_OUTSIDE) and not has_body then call('DEL', body) end
  job.flags, job.tries, job.expires_ms = flags + bit.band(job.flags, LOGGED), version.tries, version.expires_ms
  job.record = sub(version.header, 1, HEADER_BYTES) .. content
  if job.expires_ms > 0 then expire_later(job.number, job.expires_ms) end
end

-- Gives a job that is not leased new content and a new due time. A ready job that stays ready keeps its place.
local function replace(job, version)
  local was = job.state
  if was == DEAD then changes_of(job.queue).unlisted = true end
  if was == DELAYED and (version.state == READY or version.due_ms < job.due_ms) then drop_timer(job) end
  set_content(job, version)
  if was == READY and version.state == READY then
    job.due_ms = now_ms
  elseif was == DELAYED and version.state == DELAYED then
    if version.due_ms < job.due_ms then hint(job.queue, job.number, version.due_ms) end
    job.due_ms = version.due_ms
  else
    if was == READY then changes_of(job.queue).unlisted = true end
    schedule(job, version.due_ms)
  end
  rewrite(job)
end

-- Lets a version wait for the end of the lease of a job.
local function wait_for_end(job, version)
  local body = prefix .. 'next_body:' .. job.number
  local content, flags, has_body = store_payload(version, job.number, body)
  if not has_body then call('DEL', body) end
  call('SET', prefix .. 'next:' .. job.number, struct.pack(HEADER, VERSION, version.state, flags, version.tries, 0,
    job.queue, job.created_ms, version.due_ms, version.expires_ms, job.nonce) .. content)
  job.flags = bit.bor(bit.band(job.flags, bit.bnot(CANCEL_REQUESTED)), NEXT_WAITS)
  rewrite(job)
end

-- Gives a job the version that waits for the end of its lease: its counters start again, its attempts continue. Returns
-- whether there is such a version.
local function start_next_version(job)
  local number = job.number
  local next_key, body = prefix .. 'next:' .. number, prefix .. 'body:' .. number
  local version = call('GET', next_key)
  call('DEL', next_key)
  if not version or #version < HEADER_BYTES then return false end
  if has(job, BODY_OUTSIDE) then call('DEL', body) end
  local _, _, flags, _, _, _, _, due_ms, expires_ms = struct.unpack(HEADER, version)
  local next_body = prefix .. 'next_body:' .. number
  if call('EXISTS', next_body) == 1 then call('RENAME', next_body, body) end
  drop_timer(job)
  job.flags, job.tries, job.expires_ms = flags + bit.band(job.flags, LOGGED), 0, expires_ms
  job.record = version
  if expires_ms > 0 then expire_later(number, expires_ms) end
  schedule(job, due_ms)
  rewrite(job)
  return true
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

-- Ends a run as its producer has requested meanwhile: with the next version, or by deleting the job. Returns the
-- outcome; nil if nothing was requested.
local function end_as_requested(job)
  if has(job, NEXT_WAITS) and start_next_version(job) then return RERUN end
  if has(job, CANCEL_REQUESTED) then
    delete(job)
    return CANCELLED
  end
end
