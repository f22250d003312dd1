#!lua flags=allow-oom
-- ack: deletes jobs that are done.
-- KEYS[1] queues  hash: namespace/queue → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] number  of the first job
-- ARGV[5] nonce   of the first job
-- ARGV[6] created of the first job, in ms
-- ARGV[7] attempt delivery that is done; 0 = any, in any state of the job. Four values of each further job follow
-- Returns ok → now_ms, then two values for each job: 1 and its former state = deleted; 0, 0 = no such job in this
--   queue; 2, 0 = this delivery no longer holds the job, which is unchanged
-- Changes: deletes jobs, expired ones too
-- Errors: those of scripts that write (prelude.lua)
-- Since layout 1

local name, first_job = ARGV[3], 4

local GONE, DELETED, LOST = 0, 1, 2

local queue = tonumber(call('HGET', KEYS[1], name))

local function ack(number, nonce, created_ms, attempt)
  local job = stored(queue, number, nonce, created_ms)
  if not job then return GONE, 0 end
  -- If it were kept, it would be delivered again should the clock be set back.
  if expired(job) then delete(job) return GONE, 0 end
  if attempt ~= '0' and (job.state ~= LEASED or job.attempt ~= tonumber(attempt)) then return LOST, 0 end
  delete(job)
  return DELETED, job.state
end

local numbers = {}
for i = first_job, #ARGV, 4 do numbers[#numbers + 1] = ARGV[i] end
read_ahead(numbers)
local reply, filled = { 'ok', now_ms }, 2
for i = first_job, #ARGV, 4 do
  reply[filled + 1], reply[filled + 2] = ack(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
  filled = filled + 2
end
settle()
return reply
