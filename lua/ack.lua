#!lua flags=allow-oom
-- ack: ends jobs that are done. They are deleted, or kept for a while, or run again if a newer version waits.
-- KEYS[1] queues  hash: namespace/queue → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] retain  how long jobs that do not say so are kept once they are done, in ms; 0 = they are deleted
-- ARGV[5] results number of results; two values of each follow: the place of its job in this call, from 0, and the result
-- Then four values of each job:
--   number, nonce, created (ms) and attempt, the delivery that is done; 0 = any, in any state of the job
-- Returns ok → now_ms, then two values for each job: 1 and its former state = done; 3 and that = a newer version of it will
--   run; 0, 0 = no such job in this queue; 2, 0 = this delivery no longer holds the job, which is unchanged
-- Changes: deletes jobs, expired ones too; sets their state and expiry, stores their results; starts waiting versions; sends
--   doorbell, alarm, and a message for each job that a client waits for
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include records, changes, versions, settle

local name, retain_ms, first_job, results = ARGV[3], tonumber(ARGV[4]), 6, nil
if ARGV[5] ~= '0' then
  first_job, results = 6 + 2 * ARGV[5], {}
  for i = 6, first_job - 1, 2 do results[first_job + 4 * ARGV[i]] = ARGV[i + 1] end
end

-- A job that a client waits for is kept at least so long, so that it can fetch the result.
local AWAITED_RETAIN_MS = 10000

local queue = tonumber(call('HGET', KEYS[1], name))

local function ack(number, nonce, created_ms, attempt, result)
  local job = stored(queue, number, nonce, created_ms)
  if not job or job[STATE] == DONE then return GONE, 0 end
  -- If it were kept, it would be delivered again should the clock be set back.
  if expired(job) then delete(job) return GONE, 0 end
  if attempt ~= '0' and (job[STATE] ~= LEASED or job[ATTEMPT] ~= tonumber(attempt)) then return LOST, 0 end
  local was, kept_ms = job[STATE], 0
  if job[FLAGS] ~= 0 then
    if has(job, NEXT_WAITS) and rarely().start_next_version(job) then return RERUN, was end
    -- Only jobs of the native API are kept: they count failures, or have an extension.
    if was == LEASED and bit.band(job[FLAGS], COUNTS_FAILURES + EXTENDED) ~= 0 then
      kept_ms = has(job, EXTENDED) and rarely().own_ms(job, 'T', retain_ms) or retain_ms
      if job[FLAGS] >= AWAITED then kept_ms = max(kept_ms, AWAITED_RETAIN_MS) end
    end
  end
  if kept_ms > 0 then rarely().keep_done(job, kept_ms, result or '') else delete(job) end
  return APPLIED, was
end

local numbers = {}
for i = first_job, #ARGV, 4 do numbers[#numbers + 1] = ARGV[i] end
read_ahead(numbers)
local reply, filled = { 'ok', now_ms }, 2
for i = first_job, #ARGV, 4 do
  reply[filled + 1], reply[filled + 2] = ack(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], results and results[i])
  filled = filled + 2
end
settle()
return reply
