#!lua flags=allow-oom
-- reserve: takes the oldest live jobs of a queue under leases, in one step.
-- KEYS[1] queues hash, queue name → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms, '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] limit  hints that one call may take from the list before it stops
-- ARGV[5] carry  bytes up to which a payload outside of its record comes along; a record without is its header
-- ARGV[6] latest when the caller stops waiting for the reply, in ms, '' = unknown
-- ARGV[7] count  jobs of the first claim
-- ARGV[8] ttr_ms lease of the first claim; count and lease of further claims follow
-- Returns ok → now_ms, 1 if live jobs may follow (call again) else 0, then number and record of each job
-- Returns late → now_ms; the caller no longer waits, or the clock was set: nothing changed
-- Since layout 1

local name, limit, carry, first_claim = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), 7

-- A server that was paused executes calls whose callers have left. A lease for one of them would use up a try.
if ARGV[6] ~= '' and now_ms > tonumber(ARGV[6]) then return { 'late', now_ms } end

local queue = tonumber(call('HGET', KEYS[1], name))
local reply = { 'ok', now_ms, 0 }
if not queue then return reply end

local wanted = 0
for claim = first_claim, #ARGV, 2 do wanted = wanted + ARGV[claim] end

local live, list = {}, prefix .. 'ready:' .. queue

-- Takes so many hints; answers whether the list may have more.
local function take(hints)
  local numbers = call('LPOP', list, hints)
  if not numbers then return false end
  read_ahead(numbers)
  for i = 1, #numbers do
    local job = hinted(numbers[i], READY, queue)
    if job and expired(job) then
      delete(job)
    elseif job then
      -- Claimed; the same hint once more is stale.
      job.state = LEASED
      live[#live + 1] = job
    end
  end
  limit = limit - hints
  return #numbers == hints
end

while #live < wanted do
  if limit == 0 then
    reply[3] = 1
    break
  end
  if not take(min(wanted - #live, limit)) then break end
end

local function lease(job, ttr_ms)
  job.tries, job.attempt, job.due_ms = job.tries - 1, job.attempt + 1, from_ms + ttr_ms
  rewrite(job)
  hint(queue, job.number, job.due_ms)
  local filled = #reply
  reply[filled + 1], reply[filled + 2] = tonumber(job.number), whole(job, carry)
end

local next_live = 1
for claim = first_claim, #ARGV, 2 do
  local ttr_ms = tonumber(ARGV[claim + 1])
  for _ = 1, min(tonumber(ARGV[claim]), #live - next_live + 1) do
    lease(live[next_live], ttr_ms)
    next_live = next_live + 1
  end
end
local changes = changes_of(queue)
changes[READY], changes[LEASED] = changes[READY] - #live, changes[LEASED] + #live
settle()
return reply
