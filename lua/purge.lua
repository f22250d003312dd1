#!lua flags=allow-oom
-- purge: deletes ready or dead jobs of a queue, those at the head or these; with ready, also a queue that has no job left.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] which  ready or dead
-- ARGV[5] limit  most hints and lines that one call takes
-- ARGV[6] dead_ms with dead: deletes only jobs that have been dead for this long; 0 = all
-- ARGV[7…] number, nonce and created of each job, if they are named: jobs in another state stay
-- Returns ok → number of jobs deleted, 1 if the list may have more such jobs (call again) else 0
-- Changes: deletes jobs; deletes the queue's number, name and counts if the queue is forgotten
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include records, lines, settle

local name, state, limit, dead_ms = ARGV[3], ARGV[4] == 'ready' and READY or DEAD, tonumber(ARGV[5]), tonumber(ARGV[6])

local queue = tonumber(call('HGET', KEYS[1], name))
if not queue then return { 'ok', 0, 0 } end
if #ARGV > 6 then
  local purged = 0
  for i = 7, #ARGV, 3 do
    local job = stored(queue, ARGV[i], ARGV[i + 1], ARGV[i + 2])
    if job and job[STATE] == state then
      delete(job)
      purged = purged + 1
    end
  end
  settle()
  return { 'ok', purged, 0 }
end
local purged, taken_all, kept, passed = 0, false, {}, 0

-- Deletes jobs of a list, of ready jobs of a line, up to `most` hints. Returns how many hints were read, and how many taken.
local function purge_list(line, most)
  local list = prefix .. STATES[state] .. ':' .. queue .. line
  local numbers, taken = call('LRANGE', list, 0, most - 1), 0
  read_ahead(numbers)
  for i, number in ipairs(numbers) do
    local job = hinted(number, state, queue, state == READY and line)
    -- The due time of a dead job is when it died. One that was revived and died again has its old hint, too: jobs behind
    -- it may be older.
    if job and dead_ms > 0 and job[DUE_MS] > now_ms - dead_ms then
      kept[#kept + 1] = number
    elseif job or #kept == 0 then
      taken, passed = i, #kept
      if job then
        delete(job)
        purged = purged + 1
      end
    end
  end
  if taken > 0 then call('LPOP', list, taken) end
  return #numbers, taken
end

if state == DEAD then
  local read, taken = purge_list('', limit)
  taken_all = taken == read
  if passed > 0 then
    call('RPUSH', prefix .. 'dead:' .. queue, unpack(kept, 1, passed))
    -- A walk through the list begins again.
    call('HINCRBY', prefix .. 'q:' .. queue, 'turned', 1)
  end
else
  taken_all = true
  while limit > 0 do
    local line = next_line(queue)
    local read = purge_list(line or '', limit)
    if line then end_turn(text('%d', queue), line) elseif read == 0 then break end
    limit = limit - max(1, read)
  end
end
settle()

local of_ready, turns = prefix .. 'ready:' .. queue, prefix .. 'turns:' .. queue
local has_more = state == READY and call('EXISTS', of_ready, turns) or call('EXISTS', prefix .. 'dead:' .. queue)

-- Whether no record names the queue. Counts may be wrong, so hints decide: each job has one. Far hints are shared by
-- all queues of the bucket; if there are too many to read, the result is false.
local function is_empty()
  for _, jobs in ipairs(call('HMGET', prefix .. 'q:' .. queue, unpack(STATES))) do
    if (tonumber(jobs) or 0) ~= 0 then return false end
  end
  drop_stale(DEAD, queue, tonumber(ARGV[5]))
  if has_more > 0 or call('EXISTS', prefix .. 'dead:' .. queue, prefix .. 'near:' .. queue) > 0 then return false end
  local holds_far, seen_all = far_jobs(queue)
  return not holds_far and seen_all
end

-- The next publish to the queue gives it a new number.
if state == READY and is_empty() then
  forget_queue(KEYS[1], name)
  call('DEL', prefix .. 'q:' .. queue, prefix .. 'running:' .. queue)
end
return { 'ok', purged, taken_all and min(1, has_more) or 0 }
