#!lua flags=allow-oom
-- release: takes back a delivery that never reached its consumer; the job is the queue's next again.
-- KEYS[1] queues  hash, queue name → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms, '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] number  of the job
-- ARGV[5] nonce   of the job
-- ARGV[6] created of the job, in ms
-- ARGV[7] attempt the delivery that is taken back; its try is not counted
-- Returns ok → the job is ready
-- Returns gone → there is no such job in this queue
-- Returns lost → this delivery no longer holds the job; nothing changed
-- Since layout 1

local name, number, nonce, created_ms, attempt = ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])

local queue = tonumber(call('HGET', KEYS[1], name))
local job = find(queue, number, nonce, created_ms)
if not job then return { 'gone' } end
if job.state ~= LEASED or job.attempt ~= attempt then return { 'lost' } end
local changes = turn(job, READY, 'ready')
changes.at_head, changes.arrivals = true, 1
add(changes, 'untimed', number)
job.tries, job.attempt, job.due_ms = job.tries + 1, job.attempt - 1, now_ms
rewrite(job)
settle()
return { 'ok' }
