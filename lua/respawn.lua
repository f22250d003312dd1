#!lua flags=allow-oom
-- respawn: makes the oldest dead jobs of a queue ready at its tail, or delayed, with one try each or no failure.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] limit  most hints that one call takes from the dead list
-- ARGV[5] ttl_ms new time to live; 0 = never expires
-- ARGV[6] wait_us  until the first of them is due; 0 = it is ready
-- ARGV[7] space_us between the due times of two of them; 0 = all are due at once
-- Returns ok → number of jobs respawned, 1 if the dead list is not empty (call again) else 0
-- Changes: state, due time, tries or failures, expiry of the jobs; sends doorbell and alarm
-- Errors: those of scripts that write (prelude.lua)
-- Since layout 2

local name, limit, ttl_ms = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local wait_us, space_us = tonumber(ARGV[6]), tonumber(ARGV[7])

local queue = tonumber(call('HGET', KEYS[1], name))
if not queue then return { 'ok', 0, 0 } end
local list = prefix .. 'dead:' .. queue
local respawned = 0
local numbers = call('LPOP', list, limit) or {}
read_ahead(numbers)
for _, number in ipairs(numbers) do
  local job = hinted(number, DEAD, queue)
  if job then
    local wait_ms = floor((wait_us + respawned * space_us) / 1000)
    schedule(job, wait_ms > 0 and from_ms + wait_ms or now_ms)
    job[TRIES] = has(job, COUNTS_FAILURES) and 0 or 1
    job[EXPIRES_MS] = ttl_ms > 0 and from_ms + ttl_ms or 0
    rewrite(job)
    if ttl_ms > 0 then expire_later(number, job[EXPIRES_MS]) end
    respawned = respawned + 1
  end
end
settle()
return { 'ok', respawned, call('EXISTS', list) }
