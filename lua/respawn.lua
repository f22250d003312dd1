#!lua flags=allow-oom
-- respawn: makes dead jobs of a queue ready at its tail, or delayed, with one try each or no failure: the oldest, or these.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] limit  most hints that one call takes from the dead list; with jobs: 0
-- ARGV[5] ttl_ms new time to live; 0 = never expires
-- ARGV[6] due_us   when the first of them is due, in µs since 1970; in the past = it is ready
-- ARGV[7] space_us between the due times of two of them; 0 = all are due at once
-- ARGV[8…] number, nonce, created and index in the dead list of each job, if they are named: jobs that are not dead stay
--   as they are
-- Returns ok → number of jobs respawned, 1 if the dead list is not empty (call again) else 0
-- Changes: state, due time, tries or failures, expiry of the jobs; sends doorbell and alarm
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include records, changes, transitions, settle

local name, limit, ttl_ms = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local due_us, space_us = tonumber(ARGV[6]), tonumber(ARGV[7])

local queue = tonumber(call('HGET', KEYS[1], name))
if not queue then return { 'ok', 0, 0 } end
local list = prefix .. 'dead:' .. queue
local respawned = 0

-- The numbers of the named jobs that are dead. Their hints are crossed out: a job that dies again would have two. They stay
-- in the list, so that a walk through it finds its place.
local function named_jobs()
  local numbers = {}
  for i = 8, #ARGV, 4 do
    local number, index = ARGV[i], ARGV[i + 3]
    local job = stored(queue, number, ARGV[i + 1], ARGV[i + 2])
    if job and job[STATE] == DEAD then
      numbers[#numbers + 1] = number
      if call('LINDEX', list, index) == number then call('LSET', list, index, '-' .. number) end
      changes_of(queue).unlisted = true
    end
  end
  return numbers
end

local numbers = limit > 0 and call('LPOP', list, limit) or named_jobs()
read_ahead(numbers)
for _, number in ipairs(numbers) do
  local job = hinted(number, DEAD, queue)
  if job then
    schedule(job, max(floor((due_us + respawned * space_us) / 1000), now_ms))
    job[TRIES] = has(job, COUNTS_FAILURES) and 0 or 1
    job[EXPIRES_MS] = ttl_ms > 0 and from_ms + ttl_ms or 0
    rewrite(job)
    if ttl_ms > 0 then expire_later(number, job[EXPIRES_MS]) end
    respawned = respawned + 1
  end
end
settle()
if limit == 0 then drop_stale(DEAD, queue, #numbers) end
return { 'ok', respawned, call('EXISTS', list) }
