#!lua flags=allow-oom
-- move_due: makes due jobs ready, or dead if they have no try left or lost too many workers, a bounded number per call.
-- KEYS[1] lock   token of the pump that leads the bucket
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] token  of the calling pump
-- ARGV[4] limit  most hints that one call takes
-- ARGV[5] losses_max leases that may expire before a job that counts failures, and whose losses are limited, is dead
-- Returns ok → 1 if more are due (call again) else 0, µs until the next time at which further ones are due or -1, number of
--   jobs that died, of jobs that expired, of stale hints dropped, then the lateness in ms of each job made ready
-- Returns lost → the caller does not lead the bucket; nothing changed
-- Changes: state of jobs, their losses; starts waiting versions; deletes expired jobs and those whose producer wants that; drops stale hints; sends doorbells and alarms
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
-- Invariant: a hint moves a job only if its record agrees, so no job moves twice, even if two pumps call.
--- include records, changes, versions, settle

local token, limit, losses_max = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

if call('GET', KEYS[1]) ~= token then return { 'lost' } end

-- Queues that one call serves. With fewer, many small queues need many calls; with more, each has a small share.
local QUEUES = 16
-- Losses have four bits.
local LOSSES_MAX = 15
local index = prefix .. 'due'
local reply, buried, expirations, stale = { 'ok', 0, -1, 0, 0, 0 }, 0, 0, 0

-- Whether a due job is to be ready; counts a lease that has expired.
local function may_run(job)
  if not has(job, COUNTS_FAILURES) then return job[TRIES] > 0 end
  if job[STATE] == DELAYED then return true end
  local losses = job[TRIES] % 16 + 1
  job[TRIES] = job[TRIES] - job[TRIES] % 16 + min(losses, LOSSES_MAX)
  return losses < losses_max or has(job, LOSSES_UNLIMITED)
end

local function move(job)
  if job[STATE] == LEASED and end_as_requested(job) then return end
  if may_run(job) then
    turn(job, READY)
    reply[#reply + 1] = now_ms - job[DUE_MS]
  else
    rarely().bury(job)
    buried = buried + 1
  end
  rewrite(job)
end

-- Takes up to `share` hints of a queue; returns how many, and whether more are due.
local function serve(queue, share)
  local near = prefix .. 'near:' .. queue
  local numbers = call('ZRANGE', near, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, share)
  read_ahead(numbers)
  for i = 1, #numbers do
    local job = read(numbers[i])
    if not job or (job[STATE] ~= DELAYED and job[STATE] ~= LEASED) then
      stale = stale + 1
    elseif expired(job) then
      rarely().delete(job)
      expirations = expirations + 1
    elseif job[DUE_MS] > now_ms then
      hint_again(job)
    else
      move(job)
    end
  end
  if #numbers > 0 then call('ZREMRANGEBYRANK', near, 0, #numbers - 1) end
  return #numbers, due_again(index, queue, near)
end

-- Each queue has an equal share of the limit; the rest is shared in another round.
local again
repeat
  local due = members_due(index, min(QUEUES, limit))
  again = #due == QUEUES
  for i = 1, #due do
    local looked_at, has_more = serve(due[i], math.ceil(limit / (#due - i + 1)))
    -- An index entry that is too early counts as one hint, so that the call is bounded.
    limit = limit - max(1, looked_at)
    again = again or has_more
  end
until limit <= 0 or not again
settle()

local has_due, next_ms = due_and_next(index)
if has_due then reply[2] = 1 end
if next_ms then reply[3] = max(0, next_ms * 1000 - now_us) end
reply[4], reply[5], reply[6] = buried, expirations, stale
return reply
