-- transitions: for all scripts that move jobs from one state to another, or delete them.
--- include changes

-- Adds a ready job, which was in this line, to its line if that is another one now.
local function change_line(job, was)
  local line = line_of(job[FLAGS], job[RECORD])
  if line == was then return end
  local changes = changes_of(job[QUEUE])
  unlist(changes, was)
  add_ready(changes, job[NUMBER], line)
end

-- Takes a job out of its state, from its counts. Its content is the one with which it came into the state.
local function leave(job)
  local changes = changes_of(job[QUEUE])
  changes[job[STATE]] = changes[job[STATE]] - 1
  if job[STATE] == LEASED and has(job, GROUPED) then rarely().count_run(job, -1) end
  return changes
end

-- Gives a job that has left its state another one. The caller writes the record.
local function enter(job, state)
  local changes = changes_of(job[QUEUE])
  changes[state] = changes[state] + 1
  job[STATE] = state
  if state == READY then
    add_ready(changes, job[NUMBER], line_of(job[FLAGS], job[RECORD]))
  elseif state == DEAD then
    add(changes, 'dead', job[NUMBER])
  end
end

-- Moves a job to another state. The caller writes the record.
local function turn(job, state)
  leave(job)
  enter(job, state)
end

-- Deletes the entry of a job's key in the index if this job has it.
local function free_key(job)
  local hash = key_hash(job[RECORD], job[FLAGS])
  if hash and call('HGET', key_index(hash), hash) == job[NUMBER] then call('HDEL', key_index(hash), hash) end
end

-- Deletes the keys of a job that most jobs do not have, and the entry of its key in the index if this job has it.
local function delete_keys_of(job)
  local number = job[NUMBER]
  if has(job, BODY_OUTSIDE) then call('DEL', prefix .. 'body:' .. number) end
  if has(job, NEXT_WAITS) then call('DEL', prefix .. 'next:' .. number, prefix .. 'next_body:' .. number) end
  if has(job, LOGGED) then call('DEL', prefix .. 'log:' .. number) end
  free_key(job)
end

-- Notifies the clients that wait for the end of a job. AWAITED is the highest flag.
local function notify_end(job)
  call('SPUBLISH', prefix .. 'bell', '#' .. job[NUMBER])
end

-- Deletes a job with its other keys and its near timer. Its far hints and list entries stay; they are stale, and are
-- dropped when a call reads them.
local function delete(job)
  local number = job[NUMBER]
  jobs[number] = false
  if job[FLAGS] >= AWAITED and job[STATE] ~= DONE then rarely().notify_end(job) end
  add(deleted, sub(number, 1, -3), sub(number, -2))
  local changes = leave(job)
  if job[STATE] == READY then
    unlist(changes, line_of(job[FLAGS], job[RECORD]))
  elseif job[STATE] == DEAD then
    changes.unlisted = true
  elseif job[STATE] ~= DONE then
    drop_timer(job)
  end
  if job[FLAGS] ~= 0 and bit.band(job[FLAGS], EXTENDED + BODY_OUTSIDE + NEXT_WAITS + LOGGED) ~= 0 then rarely().delete_keys_of(job) end
  if job[EXPIRES_MS] > 0 then
    local chunk = sub(number, 1, -3)
    expiries[chunk] = expiries[chunk] or false
  end
end

-- Takes the key from a job that is done. One that is awaited stays without the key, for those who fetch its result.
local function replace_done(job)
  if job[FLAGS] < AWAITED or expired(job) then delete(job) else free_key(job) end
end

-- Makes a job that has left its state ready, or delayed until a time in the future. The caller writes the record.
local function enter_at(job, due_ms)
  if due_ms > now_ms then
    enter(job, DELAYED)
    job[DUE_MS] = due_ms
    hint(job[QUEUE], job[NUMBER], due_ms)
  else
    enter(job, READY)
    job[DUE_MS] = now_ms
  end
end

-- Makes a job ready, or delayed until a time in the future. The caller writes the record.
local function schedule(job, due_ms)
  leave(job)
  enter_at(job, due_ms)
end

-- Makes a job dead. The caller writes the record.
local function bury(job)
  turn(job, DEAD)
  job[DUE_MS], job[EXPIRES_MS] = now_ms, 0
  if job[FLAGS] >= AWAITED then
    rarely().notify_end(job)
    job[FLAGS] = job[FLAGS] - AWAITED
  end
end

-- Keeps a job that was leased for a while as done, with its result ('' = none) in place of its payload.
local function keep_done(job, for_ms, result)
  local head = sub(job[RECORD], 1, head_bytes(job))
  local body = prefix .. 'body:' .. job[NUMBER]
  if result ~= '' then call('SET', body, result) elseif has(job, BODY_OUTSIDE) then call('DEL', body) end
  if job[FLAGS] >= AWAITED then rarely().notify_end(job) end
  drop_timer(job)
  turn(job, DONE)
  job[FLAGS] = bit.band(job[FLAGS], 255 - COLD + PRIORITY_BITS + LOGGED + AWAITED) + (result ~= '' and BODY_OUTSIDE or 0)
  job[RECORD], job[DUE_MS], job[EXPIRES_MS] = head, now_ms, from_ms + for_ms
  expire_later(job[NUMBER], job[EXPIRES_MS])
  rewrite(job)
end
