#!lua flags=allow-oom
-- release: gives deliveries back. It counts neither as a failure nor as a try.
-- KEYS[1] queues  hash: namespace/queue → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] delay   until the jobs are due again, in ms; 0 = they are the next of their priority and group
-- ARGV[5] number  of the first job; without a delay, the last one becomes the next of its priority and
--   group
-- ARGV[6] nonce   of the first job
-- ARGV[7] created of the first job, in ms
-- ARGV[8] attempt delivery that is given back. Four values of each further job follow
-- Returns ok → now_ms, then for each job: 1 = it is ready, or delayed; 3 = a newer version of it will run; 4 = it is deleted, as its
--   producer had requested; 0 = there is no such job in this queue; 2 = this delivery no longer holds the job. With 0 and 2
--   it is unchanged
-- Changes: makes the jobs ready at the head of the list, or delayed, and gives their tries back, but not the numbers of
--   their attempts, so that a call may be repeated; starts waiting versions; sends doorbell and alarm
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include records, changes, versions, settle

local name, delay_ms, first_job = ARGV[3], tonumber(ARGV[4]), 5

local queue = tonumber(call('HGET', KEYS[1], name))

local function release(number, nonce, created_ms, attempt)
  local job = find(queue, number, nonce, created_ms)
  if not job or job[STATE] == DONE then return GONE end
  if job[STATE] ~= LEASED or job[ATTEMPT] ~= attempt then return LOST end
  local outcome = end_as_requested(job)
  if outcome then return outcome end
  drop_timer(job)
  schedule(job, delay_ms > 0 and from_ms + delay_ms or now_ms)
  local changes = changes_of(queue)
  changes.at_head, changes.arrivals = delay_ms == 0, (changes.arrivals or 0) + 1
  if not has(job, COUNTS_FAILURES) then job[TRIES] = job[TRIES] + 1 end
  rewrite(job)
  return APPLIED
end

local numbers = {}
for i = first_job, #ARGV, 4 do numbers[#numbers + 1] = ARGV[i] end
read_ahead(numbers)
local reply = { 'ok', now_ms }
for i = first_job, #ARGV, 4 do
  reply[#reply + 1] = release(ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]))
end
settle()
return reply
