#!lua flags=allow-oom
-- result: returns how a job has ended. If it has not, its end will be notified.
-- KEYS[1] queues  hash: namespace/queue → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] number  of the job; '' = it is named by its key
-- ARGV[5] nonce   of the job; the hash of its key
-- ARGV[6] created of the job, in ms; the placement of its key
-- ARGV[7] carry   largest result, in bytes, that is returned with its record; of a larger one only the record is returned
-- Returns done → now_ms, number and record of the job, with its result if it has one
-- Returns dead → number, created and nonce of the job
-- Returns waits → state, number, created and nonce of the job, which has not ended
-- Returns gone → there is no such job in this queue
-- Returns stale → the floor of the lane, which refuses the placement; nothing changed
-- Changes: of a job that has not ended, the flag that lets its end be notified
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include placements, changes, transitions, settle

local name, carry = ARGV[3], tonumber(ARGV[7])
local job, _, stale = named(KEYS[1], name, ARGV[4], ARGV[5], ARGV[6])
if stale then return stale end

if not job or expired(job) then return { 'gone' } end
if job[STATE] == DONE then return { 'done', now_ms, tonumber(job[NUMBER]), whole(job, carry) } end
if job[STATE] == DEAD then return { 'dead', tonumber(job[NUMBER]), job[CREATED_MS], job[NONCE] } end
-- Only jobs of the native API have results; of others the end is notified as well.
if job[FLAGS] < AWAITED then
  job[FLAGS] = job[FLAGS] + AWAITED
  rewrite(job)
  settle()
end
return { 'waits', job[STATE], tonumber(job[NUMBER]), job[CREATED_MS], job[NONCE] }
