#!lua flags=allow-oom
-- cancel: deletes a job; of a job that is leased, as the caller wants.
-- KEYS[1] queues  hash: namespace/queue → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] number  of the job; '' = it is named by its key
-- ARGV[5] nonce   of the job; the hash of its key
-- ARGV[6] created of the job, in ms; the placement of its key
-- ARGV[7] running what happens to a job that is leased: refuse = nothing; ask = it is deleted at the end of its lease unless
--   it is done; revoke = it is deleted now, and its consumer holds it no longer
-- ARGV[8] state   the job is cancelled only in this state; '' = in any
-- Returns ok → the state it was in, number, created and nonce; leased with ask = the request is stored
-- Returns gone → there is no such job in this queue, or it had expired, or it is in another state
-- Returns leased → a consumer holds the job, and running is refuse; nothing changed
-- Returns done → number, created and nonce of the job, which is done and kept for a while; nothing changed
-- Returns stale → the floor of the lane, which refuses the placement; nothing changed
-- Changes: deletes the job; its flags; deletes a version that waits for the end of its lease
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include placements, changes, transitions, settle

local name, running, in_state = ARGV[3], ARGV[7], tonumber(ARGV[8])

local job, _, stale = named(KEYS[1], name, ARGV[4], ARGV[5], ARGV[6])
if stale then return stale end
if not job then return { 'gone' } end
local was, is_gone = job[STATE], expired(job)
if in_state and was ~= in_state then return { 'gone' } end
if was == DONE and not is_gone then return { 'done', tonumber(job[NUMBER]), job[CREATED_MS], job[NONCE] } end
if was == LEASED and not is_gone and running == 'refuse' then return { 'leased' } end
if was == LEASED and not is_gone and running == 'ask' then
  if has(job, NEXT_WAITS) then call('DEL', prefix .. 'next:' .. job[NUMBER], prefix .. 'next_body:' .. job[NUMBER]) end
  job[FLAGS] = bit.bor(bit.band(job[FLAGS], bit.bnot(NEXT_WAITS)), CANCEL_REQUESTED)
  rewrite(job)
else
  delete(job)
end
settle()
-- An expired job is deleted as well: it would come back if the clock were set back.
if is_gone then return { 'gone' } end
return { 'ok', was, tonumber(job[NUMBER]), job[CREATED_MS], job[NONCE] }
