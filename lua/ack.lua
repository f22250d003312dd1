#!lua flags=allow-oom
-- ack: deletes jobs of a queue that are done.
-- KEYS[1] queues  hash, queue name → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms, '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] number  of the first job
-- ARGV[5] nonce   of the first job
-- ARGV[6] created of the first job, in ms
-- ARGV[7] attempt the delivery that is done; 0 = whichever, in any state. Four values of each further job follow
-- Returns ok → now_ms, then for each job: 1 deleted, 0 there is no such job in this queue, or 2 this delivery no
--   longer holds the job, which stays as it is; the state in which it was deleted
-- Since layout 1

local name, first_job = ARGV[3], 4

local GONE, DELETED, LOST = 0, 1, 2

local queue = tonumber(call('HGET', KEYS[1], name))

local function ack(number, nonce, created_ms, attempt)
  local job = find(queue, number, nonce, created_ms)
  if not job then return GONE, 0 end
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
