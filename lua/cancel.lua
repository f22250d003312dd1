#!lua flags=allow-oom
-- cancel: deletes a job that nobody is working on.
-- KEYS[1] queues hash, queue name → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms, '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] number of the job
-- ARGV[5] nonce  of the job
-- ARGV[6] created of the job, in ms
-- Returns ok → the state it was in
-- Returns gone → there is no such job in this queue
-- Returns leased → a consumer holds the job; nothing changed
-- Since layout 1

local name, number, nonce, created_ms = ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local queue = tonumber(call('HGET', KEYS[1], name))
local job = find(queue, number, nonce, created_ms)
if not job then return { 'gone' } end
if job.state == LEASED then return { 'leased' } end
delete(job)
settle()
return { 'ok', job.state }
