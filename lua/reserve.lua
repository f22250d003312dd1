#!lua flags=allow-oom
-- reserve: takes the oldest live jobs of a queue under leases, in one step.
-- KEYS[1] queues hash, queue name → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms, '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] stale  stale hints that one call may drop before it stops
-- ARGV[5] carry  bytes up to which a payload outside of its record comes along; a record without is its header
-- ARGV[6] count  jobs of the first claim
-- ARGV[7] ttr_ms lease of the first claim; count and lease of further claims follow
-- Returns ok → now_ms, 1 if live jobs may follow (call again) else 0, then number and record of each job
-- Since layout 1

local name, stale_left, carry, first_claim = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), 6

local queue = tonumber(redis.call('HGET', KEYS[1], name))
local reply = { 'ok', now_ms, 0 }
if not queue then return reply end

local function next_live()
  while stale_left >= 0 do
    local number = redis.call('LPOP', prefix .. 'ready:' .. queue)
    if not number then return nil end
    local job = hinted(number, READY, queue)
    if job then
      if not expired(job) then return job end
      delete(job)
    end
    stale_left = stale_left - 1
  end
  reply[3] = 1
  return nil
end

local function lease(job, ttr_ms)
  job.state, job.tries, job.attempt = LEASED, job.tries - 1, job.attempt + 1
  job.due_ms = from_ms + ttr_ms
  write(job)
  hint(job)
  count(queue, READY, -1)
  count(queue, LEASED, 1)
  reply[#reply + 1] = job.number
  reply[#reply + 1] = whole(job, carry)
end

local function serve_claims()
  for claim = first_claim, #ARGV, 2 do
    for _ = 1, tonumber(ARGV[claim]) do
      local job = next_live()
      if not job then return end
      lease(job, tonumber(ARGV[claim + 1]))
    end
  end
end

serve_claims()
settle()
return reply
