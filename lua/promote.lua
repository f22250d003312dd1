#!lua flags=allow-oom
-- promote: makes a delayed job ready now.
-- KEYS[1] queues  hash: namespace/queue → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] number  of the job; '' = it is named by its key
-- ARGV[5] nonce   of the job; the hash of its key
-- ARGV[6] created of the job, in ms; the placement of its key
-- Returns ok → 1 = it was delayed, 0 = it was ready already; number, created, nonce and due
--   time (ms) of the job
-- Returns gone → there is no such job in this queue
-- Returns held → its state, which is neither delayed nor ready; nothing changed
-- Returns stale → the floor of the lane, which refuses the placement; nothing changed
-- Changes: state, due time and expiry of the job; sends the doorbell
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include placements, changes, transitions, settle

local name = ARGV[3]

local job, _, stale = named(KEYS[1], name, ARGV[4], ARGV[5], ARGV[6])
if stale then return stale end
if not job or expired(job) then return { 'gone' } end
if job[STATE] ~= DELAYED and job[STATE] ~= READY then return { 'held', job[STATE] } end
local was_delayed = job[STATE] == DELAYED
if was_delayed then
  drop_timer(job)
  if job[EXPIRES_MS] > 0 and has(job, COUNTS_FAILURES) then
    job[EXPIRES_MS] = from_ms + job[EXPIRES_MS] - job[DUE_MS]
    expire_later(job[NUMBER], job[EXPIRES_MS])
  end
  schedule(job, now_ms)
  rewrite(job)
  settle()
end
return { 'ok', was_delayed and 1 or 0, tonumber(job[NUMBER]), job[CREATED_MS], job[NONCE], job[DUE_MS] }
