#!lua flags=allow-oom
-- release: takes back deliveries that never reached their consumers; the jobs are the next of their queue again.
-- KEYS[1] queues  hash: namespace/queue → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] number  of the first job; the last one becomes the next of its queue
-- ARGV[5] nonce   of the first job
-- ARGV[6] created of the first job, in ms
-- ARGV[7] attempt delivery that is taken back. Four values of each further job follow
-- Returns ok → for each job: 1 = it is ready; 0 = there is no such job in this queue; 2 = this delivery no longer holds
--   the job. With 0 and 2 it is unchanged
-- Changes: makes the jobs ready at the head of the list, and gives their tries back; sends the doorbell
-- Errors: those of scripts that write (prelude.lua)
-- Since layout 1

local name, first_job = ARGV[3], 4

local GONE, RELEASED, LOST = 0, 1, 2

local queue = tonumber(call('HGET', KEYS[1], name))

local function release(number, nonce, created_ms, attempt)
  local job = find(queue, number, nonce, created_ms)
  if not job then return GONE end
  if job.state ~= LEASED or job.attempt ~= attempt then return LOST end
  local changes = turn(job, READY, 'ready')
  changes.at_head, changes.arrivals = true, (changes.arrivals or 0) + 1
  add(changes, 'untimed', number)
  job.tries, job.attempt, job.due_ms = job.tries + 1, job.attempt - 1, now_ms
  rewrite(job)
  return RELEASED
end

local numbers = {}
for i = first_job, #ARGV, 4 do numbers[#numbers + 1] = ARGV[i] end
read_ahead(numbers)
local reply = { 'ok' }
for i = first_job, #ARGV, 4 do
  reply[#reply + 1] = release(ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]))
end
settle()
return reply
