#!lua flags=allow-oom
-- respawn: makes the oldest dead jobs of a queue ready again, with one try each, at the tail of the ready list.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] limit  most hints that one call takes from the dead list
-- ARGV[5] ttl_ms new time to live; 0 = never expires
-- Returns ok → number of jobs respawned, 1 if the dead list is not empty (call again) else 0
-- Changes: state, tries, expiry of the jobs; sends the doorbell
-- Errors: those of scripts that write (prelude.lua)
-- Since layout 1

local name, limit, ttl_ms = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

local queue = tonumber(call('HGET', KEYS[1], name))
if not queue then return { 'ok', 0, 0 } end
local list = prefix .. 'dead:' .. queue
local respawned = 0
local numbers = call('LPOP', list, limit) or {}
read_ahead(numbers)
for _, number in ipairs(numbers) do
  local job = hinted(number, DEAD, queue)
  if job then
    turn(job, READY, 'ready')
    job.tries, job.due_ms = 1, now_ms
    job.expires_ms = ttl_ms > 0 and from_ms + ttl_ms or 0
    rewrite(job)
    if ttl_ms > 0 then expire_later(number, job.expires_ms) end
    respawned = respawned + 1
  end
end
settle()
return { 'ok', respawned, call('EXISTS', list) }
