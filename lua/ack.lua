#!lua flags=allow-oom
-- ack: ends jobs that are done. They are deleted, or kept for a while, or run again if a newer version waits.
-- KEYS[1] queues  hash: namespace/queue → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] retain  how long jobs that do not say so are kept once they are done, in ms; 0 = they are deleted
-- ARGV[5] number  of the first job
-- ARGV[6] nonce   of the first job
-- ARGV[7] created of the first job, in ms
-- ARGV[8] attempt delivery that is done; 0 = any, in any state of the job, unless the job has a key: that must be leased.
--   Four values of each further job follow
-- Returns ok → now_ms, then two values for each job: 1 and its former state = done; 3 and that = a newer version of it will
--   run; 0, 0 = no such job in this queue; 2, 0 = this delivery no longer holds the job, which is unchanged
-- Changes: deletes jobs, expired ones too; sets their state and expiry; starts waiting versions; sends doorbell and alarm
-- Errors: those of scripts that write (prelude.lua)
-- Since layout 2
-- Rarely calls: start_next_version, keep_done, key_hash, own_ms, drop_stale

local name, retain_ms, first_job = ARGV[3], tonumber(ARGV[4]), 5

local queue = tonumber(call('HGET', KEYS[1], name))

local function ack(number, nonce, created_ms, attempt)
  local job = stored(queue, number, nonce, created_ms)
  if not job or job[STATE] == DONE then return GONE, 0 end
  -- If it were kept, it would be delivered again should the clock be set back.
  if expired(job) then delete(job) return GONE, 0 end
  if attempt == '0' and job[FLAGS] ~= 0 and key_hash(job[RECORD], job[FLAGS]) then
    if job[STATE] ~= LEASED then return LOST, 0 end
  elseif attempt ~= '0' and (job[STATE] ~= LEASED or job[ATTEMPT] ~= tonumber(attempt)) then
    return LOST, 0
  end
  local was, kept_ms = job[STATE], 0
  if job[FLAGS] ~= 0 then
    if has(job, NEXT_WAITS) and start_next_version(job) then return RERUN, was end
    -- Only jobs that count failures, those of the native API, are kept.
    if has(job, COUNTS_FAILURES) and was == LEASED then
      kept_ms = has(job, EXTENDED) and own_ms(job, 'T', retain_ms) or retain_ms
    end
  end
  if kept_ms > 0 then keep_done(job, kept_ms) else delete(job) end
  return APPLIED, was
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
