#!lua flags=allow-oom
-- fail: ends deliveries that failed. Their jobs are delayed until the next attempt, or dead.
-- KEYS[1] queues  hash: namespace/queue → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] attempts_max failures after which jobs that do not say so are dead
-- ARGV[5] retry   delays of jobs that have none, as in the extension of a record
-- ARGV[6] full    1 = Redis is at maxmemory: no history becomes larger; 0 = it may
-- ARGV[7] number  of the first job
-- ARGV[8] nonce   of the first job
-- ARGV[9] created of the first job, in ms
-- ARGV[10] attempt delivery that failed
-- ARGV[11] then   '' = retry after the next delay; a number = retry after this many ms; dead = no other attempt
-- ARGV[12] random 0 to 65535: how much of the jitter is added to the delay
-- ARGV[13] error  text for the history of the job. Seven values of each further job follow
-- Returns ok → now_ms, then two values for each job: 1 and when it is due = it is retried; 5, 0 = it is dead; 4, 0 = it is
--   deleted, as its producer had requested; 3, 0 = a newer version of it will run; 0, 0 = no such job in this queue; 2, 0 =
--   this delivery no longer holds the job, which is unchanged
-- Changes: state, due time and failures of jobs, their history; starts waiting versions; sends doorbell and alarm
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include records, changes, versions, settle

local name, attempts_max, retry, is_full, first_job = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6] == '1', 7

-- Failures are counted up to this number; it needs 12 bits.
local FAILURES_MAX = 4095
local HISTORY_MAX = 10

local queue = tonumber(call('HGET', KEYS[1], name))

-- The delay after a number of failures: the last one of a list is repeated, others grow up to the longest one.
local function next_delay(job, failures, random)
  local delays = option(job, 'R') or retry
  local steps, jitter = struct.unpack('>BH', delays)
  local delay_ms = 0
  if steps == GROWING then
    local first_ms, factor, max_ms = struct.unpack('>I6dI6', delays, 4)
    delay_ms = min(floor(first_ms * factor ^ (failures - 1) + 0.5), max_ms)
  elseif steps > 0 then
    delay_ms = struct.unpack('>I6', delays, 4 + 6 * (min(failures, steps) - 1))
  end
  return floor(delay_ms * (1 + jitter / 1000 * random / 65535) + 0.5)
end

-- An entry of the history: 1 = retried, 2 = dead, 3 = dead since no other attempt was wanted; attempt; when, and when it
-- is retried, in ms; the error.
local function log(job, kind, retry_ms, message)
  local history = prefix .. 'log:' .. job[NUMBER]
  local entry = struct.pack('>BI4I6I6', kind, job[ATTEMPT], now_ms, retry_ms) .. message
  if is_full then
    -- It may only take the place of the oldest entry.
    local oldest = call('LINDEX', history, 0)
    if not oldest or #oldest < #entry then return end
    call('LPOP', history)
  end
  call('RPUSH', history, entry)
  call('LTRIM', history, -HISTORY_MAX, -1)
  job[FLAGS] = bit.bor(job[FLAGS], LOGGED)
end

-- Counts a failure; returns how many there were, and whether it was the last one. A delivery of a job that does not count
-- failures has used a try already.
local function count_failure(job)
  if not has(job, COUNTS_FAILURES) then return job[ATTEMPT], job[TRIES] == 0 end
  local failures, own = min(floor(job[TRIES] / 16) + 1, FAILURES_MAX), option(job, 'A')
  job[TRIES] = failures * 16 + job[TRIES] % 16
  return failures, failures >= (own and struct.unpack('>H', own) or attempts_max)
end

local function fail(number, nonce, created_ms, attempt, wanted, random, message)
  local job = find(queue, number, nonce, created_ms)
  if not job or job[STATE] == DONE then return GONE, 0 end
  if job[STATE] ~= LEASED or job[ATTEMPT] ~= attempt then return LOST, 0 end
  local outcome = end_as_requested(job)
  if outcome then return outcome, 0 end
  local failures, is_last = count_failure(job)
  if wanted == 'dead' or is_last then
    log(job, wanted == 'dead' and 3 or 2, 0, message)
    drop_timer(job)
    bury(job)
    rewrite(job)
    return BURIED, 0
  end
  local due_ms = from_ms + (tonumber(wanted) or next_delay(job, failures, random))
  log(job, 1, due_ms, message)
  drop_timer(job)
  schedule(job, due_ms)
  rewrite(job)
  return APPLIED, job[DUE_MS]
end

local numbers = {}
for i = first_job, #ARGV, 7 do numbers[#numbers + 1] = ARGV[i] end
read_ahead(numbers)
local reply = { 'ok', now_ms }
for i = first_job, #ARGV, 7 do
  local outcome, due_ms = fail(ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), ARGV[i + 4],
    tonumber(ARGV[i + 5]), ARGV[i + 6])
  reply[#reply + 1], reply[#reply + 2] = outcome, due_ms
end
settle()
return reply
