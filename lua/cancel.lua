#!lua flags=allow-oom
-- cancel: deletes a job that nobody is working on.
-- KEYS[1] queues hash, queue name → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms, '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] number of the job
-- ARGV[5] nonce  of the job
-- Returns ok → the state it was in
-- Returns gone → there is no such job in this queue
-- Returns leased → a consumer holds the job; nothing changed
-- Since layout 1

local name, number, nonce = ARGV[3], ARGV[4], tonumber(ARGV[5])

local job = read(number)
local queue = tonumber(redis.call('HGET', KEYS[1], name))
if not job or job.queue ~= queue or job.nonce ~= nonce or expired(job) then return { 'gone' } end
if job.state == LEASED then return { 'leased' } end
delete(job)
settle()
return { 'ok', job.state }
