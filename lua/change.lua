#!lua flags=allow-oom
-- change: sets when a job that waits is due, and its priority.
-- KEYS[1] queues  hash: namespace/queue → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] number  of the job; '' = it is named by its key
-- ARGV[5] nonce   of the job; the hash of its key
-- ARGV[6] created of the job, in ms; the placement of its key
-- ARGV[7] due     '' = unchanged; a delay in ms, or an instant + 2^46
-- ARGV[8] start_within '' = unchanged; ms after it is due in which it must have started; 0 = no limit
-- ARGV[9] state   the job is changed only in this state; '' = in any in which it waits
-- ARGV[10] priority '' = unchanged; 0 to 4
-- Returns ok → now_ms, number and record of the job without a large body
-- Returns gone → there is no such job in this queue
-- Returns held → its state, in which it is not changed; nothing changed
-- Returns stale → the floor of the lane, which refuses the placement; nothing changed
-- Changes: state, due time, expiry and priority of the job; sends doorbell and alarm
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include placements, changes, versions, settle

local name, due, start_within, in_state = ARGV[3], tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local priority = tonumber(ARGV[10])

local job, queue, stale = named(KEYS[1], name, ARGV[4], ARGV[5], ARGV[6])
if stale then return stale end
if not job or expired(job) then return { 'gone' } end
local waits = job[STATE] == DELAYED or job[STATE] == READY
if not waits or in_state and job[STATE] ~= in_state then return { 'held', job[STATE] } end

-- A job that counts failures expires relative to its due time; its expiry moves with it.
local limit_ms = start_within
if not limit_ms then
  limit_ms = job[EXPIRES_MS] > 0 and has(job, COUNTS_FAILURES) and job[EXPIRES_MS] - job[DUE_MS] or 0
end
local state, due_ms, line = job[STATE], job[DUE_MS], line_of(job[FLAGS], job[RECORD])
if priority then job[FLAGS] = bit.band(job[FLAGS], bit.bnot(PRIORITY_BITS)) + priority * PRIORITY end
if due then
  state, due_ms = times_of(job[FLAGS], DELAYED, due, 0)
elseif start_within then
  -- A limit counts from now on if the job is due already. It is then due now: the next change reads the limit from both times.
  due_ms = max(due_ms, now_ms)
end
if state == READY and job[STATE] == DELAYED then
  drop_timer(job)
  schedule(job, now_ms)
elseif state == DELAYED and job[STATE] == READY then
  unlist(changes_of(queue), line)
  schedule(job, due_ms)
elseif state == DELAYED then
  postpone(job, due_ms)
else
  job[DUE_MS] = due_ms
  if priority then rarely().change_line(job, line) end
end
if start_within or due and has(job, COUNTS_FAILURES) then
  job[EXPIRES_MS] = limit_ms > 0 and max(from_ms, job[DUE_MS]) + limit_ms or 0
end
if job[EXPIRES_MS] > 0 then expire_later(job[NUMBER], job[EXPIRES_MS]) end
rewrite(job)
settle()
return { 'ok', now_ms, tonumber(job[NUMBER]), job[RECORD] }
