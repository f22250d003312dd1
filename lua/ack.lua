#!lua flags=allow-oom
-- ack: deletes a job that is done.
-- KEYS[1] queues  hash, queue name → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms, '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] number  of the job
-- ARGV[5] nonce   of the job
-- ARGV[6] created of the job, in ms
-- ARGV[7] attempt the delivery that is done; 0 = whichever, in any state
-- Returns ok → the state it was in, its creation in ms, now_ms
-- Returns gone → there is no such job in this queue
-- Returns lost → this delivery no longer holds the job; nothing changed
-- Since layout 1

local name, number, nonce, created_ms, attempt = ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])

local job = find(KEYS[1], name, number, nonce, created_ms)
if not job then return { 'gone' } end
if attempt ~= 0 and (job.state ~= LEASED or job.attempt ~= attempt) then return { 'lost' } end
delete(job)
settle()
return { 'ok', job.state, job.created_ms, now_ms }
