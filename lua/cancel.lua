#!lua flags=allow-oom
-- cancel: deletes a job that is not leased.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] number of the job
-- ARGV[5] nonce  of the job
-- ARGV[6] created of the job, in ms
-- Returns ok → the state it was in
-- Returns gone → there is no such job in this queue, or it had expired
-- Returns leased → a consumer holds the job; nothing changed
-- Changes: deletes the job
-- Errors: those of scripts that write (prelude.lua)
-- Since layout 1

local name, number, nonce, created_ms = ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local queue = tonumber(call('HGET', KEYS[1], name))
local job = stored(queue, number, nonce, created_ms)
if not job then return { 'gone' } end
local is_gone = expired(job)
if job.state == LEASED and not is_gone then return { 'leased' } end
delete(job)
settle()
-- An expired job is deleted as well: it would come back if the clock were set back.
if is_gone then return { 'gone' } end
return { 'ok', job.state }
