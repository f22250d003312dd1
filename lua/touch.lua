#!lua flags=allow-oom
-- touch: extends leases. No lease becomes shorter.
-- KEYS[1] queues  hash: namespace/queue → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] lease   new length from now on, in ms; '' = the lease of the job
-- ARGV[5] default length for jobs that have none, in ms
-- ARGV[6] number  of the first job
-- ARGV[7] nonce   of the first job
-- ARGV[8] created of the first job, in ms
-- ARGV[9] attempt delivery that is extended. Four values of each further job follow
-- Returns ok → now_ms, then for each job: 1 = extended, 4 = extended, and its producer wants it cancelled, each with the end of the lease
--   in ms; 0, 0 = no such job in this queue; 2, 0 = this delivery no longer holds the job, which is unchanged
-- Changes: the end of leases. Their timers stay, and are set again when they come up
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include records, changes, transitions, settle

local name, lease_ms, default_ms, first_job = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), 6

local queue = tonumber(call('HGET', KEYS[1], name))

local function touch(number, nonce, created_ms, attempt)
  local job = find(queue, number, nonce, created_ms)
  if not job or job[STATE] == DONE then return GONE, 0 end
  if job[STATE] ~= LEASED or job[ATTEMPT] ~= attempt then return LOST, 0 end
  local until_ms = from_ms + (lease_ms or own_ms(job, 'L', default_ms))
  if until_ms > job[DUE_MS] then
    job[DUE_MS] = until_ms
    rewrite(job)
  end
  return has(job, CANCEL_REQUESTED) and CANCELLED or APPLIED, job[DUE_MS]
end

local numbers = {}
for i = first_job, #ARGV, 4 do numbers[#numbers + 1] = ARGV[i] end
read_ahead(numbers)
local reply = { 'ok', now_ms }
for i = first_job, #ARGV, 4 do
  local outcome, until_ms = touch(ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]))
  reply[#reply + 1], reply[#reply + 2] = outcome, until_ms
end
settle_records()
return reply
