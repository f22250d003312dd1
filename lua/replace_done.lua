#!lua flags=allow-oom
-- replace_done: takes the key from a job that is done. Another lane has stored the job that replaces it.
-- KEYS[1] queues  hash: namespace/queue → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] number  of the job
-- ARGV[5] nonce   of the job
-- ARGV[6] created of the job, in ms
-- Returns ok → nothing else: no job that is done has this id and a key
-- Changes: deletes the job, or its key in the index if a client awaits the job
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include changes, transitions, settle

local job = stored(tonumber(call('HGET', KEYS[1], ARGV[3])), ARGV[4], ARGV[5], ARGV[6])
if job and job[STATE] == DONE then
  replace_done(job)
  settle()
end
return { 'ok' }
