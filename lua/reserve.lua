#!lua flags=allow-oom
-- reserve: leases ready jobs of a queue to the consumers that claim them, by priority and then the oldest first.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] limit  most hints that one call takes from the ready list
-- ARGV[5] carry  largest body, in bytes, that is returned with its header; of a larger one only the header is returned
-- ARGV[6] latest when the caller stops waiting for the reply, in ms; '' = unknown
-- ARGV[7] waiter id of the process to register if no job is left; '' = none
-- ARGV[8] running most jobs of the queue that may be leased in this bucket at a time; '' = any number
-- ARGV[9] of_group most jobs of a group of the queue that may be leased in this bucket at a time; '' = any number
-- ARGV[10] cold   ms until jobs are due again whose payloads are in the cold tier, instead of being leased; '' = they are
--   leased
-- ARGV[11] count most jobs of the first claim
-- ARGV[12] lease of the first claim, in ms; below 0: the lease of the job, or if it has none this lease without its sign. Count
--   and lease of each further claim follow
-- Returns ok → now_ms, 1 if the limit was reached (more may be ready: call again) else 0, 1 if the process is registered:
--   no job is left that may be leased, and a doorbell follows; else 0, then one text for each job: its record, its number
--   and its former due time (ms), both in six bytes, big-endian. Separate values take the caller more time to read
-- Returns late → now_ms; nothing changed: the caller no longer waits, or the clock was set forward
-- Changes: leases jobs (attempt + 1, a timer at the end of the lease; one try less, or if the job counts failures no limit
--   for its start any more; the lease of a cold job is 15 s at least); deletes expired jobs, and postpones cold ones, that it
--   meets. If all claims are filled and jobs are left that may be leased, rings the next process that is registered. Stores
--   whether `running` holds jobs back
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include records, changes, transitions, lines, taking, waiting, settle

local name, limit, carry, waiter, running = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[7], ARGV[8]
local first_claim = 11
cold_ms = tonumber(ARGV[10])

-- A server that was paused executes calls that their callers have given up. A lease for one of them would cost a try.
if ARGV[6] ~= '' and now_ms > tonumber(ARGV[6]) then return { 'late', now_ms } end

local known = call('HGET', KEYS[1], name)
local queue = tonumber(known)
local reply = { 'ok', now_ms, 0, 0 }

local function register_waiter()
  if waiter == '' then return end
  register(name, waiter)
  reply[4] = 1
end

if not queue then
  register_waiter()
  return reply
end

local wanted = 0
for claim = first_claim, #ARGV, 2 do wanted = wanted + ARGV[claim] end

-- How many jobs may be leased, and how many of its limit the queue has.
local of_queue, places, at_limit = prefix .. 'q:' .. queue, math.huge, false
if running ~= '' then
  local counts = call('HMGET', of_queue, STATES[LEASED], 'at_limit')
  places, at_limit = max(0, running - leased_in(counts[1])), counts[2]
  wanted = min(wanted, places)
end

local live, with_turns = {}, has_lines(known)

-- Whether more may be ready.
local has_more = false
if with_turns then
  has_more = rarely().take_by_turns(queue, wanted, limit, tonumber(ARGV[9]), live)
else
  while #live < wanted do
    local hints = min(wanted - #live, limit)
    has_more = hints == 0
    if has_more or take_of_only_line(queue, hints, live) < hints then break end
    limit = limit - hints
  end
end
if has_more then reply[3] = 1 end

-- The shortest lease of a job whose payload the caller reads from the cold tier before it delivers the job.
local COLD_LEASE_MS = 15000

local function lease(job, lease_ms)
  if has(job, COUNTS_FAILURES) then job[EXPIRES_MS] = 0 else job[TRIES] = job[TRIES] - 1 end
  if lease_ms < 0 then lease_ms = own_ms(job, 'L', -lease_ms) end
  if has(job, COLD) then lease_ms = max(lease_ms, COLD_LEASE_MS) end
  local due_ms = job[DUE_MS]
  job[ATTEMPT], job[DUE_MS] = job[ATTEMPT] + 1, from_ms + lease_ms
  rewrite(job)
  hint_for(job)
  reply[#reply + 1] = whole(job, carry) .. struct.pack('>I6I6', tonumber(job[NUMBER]), due_ms)
end

local next_live = 1
for claim = first_claim, #ARGV, 2 do
  local lease_ms = tonumber(ARGV[claim + 1])
  for _ = 1, min(tonumber(ARGV[claim]), #live - next_live + 1) do
    lease(live[next_live], lease_ms)
    next_live = next_live + 1
  end
end
local changes = changes_of(queue)
changes[READY], changes[LEASED] = changes[READY] - #live, changes[LEASED] + #live
settle()
local now_at_limit = false
if #live < wanted then
  if reply[3] == 1 then return reply end
  register_waiter()
elseif with_turns and not rarely().has_hints(text('%d', queue), ARGV[9]) or not with_turns and call('EXISTS', prefix .. 'ready:' .. queue) == 0 then
  -- The consumers that come back after these jobs then need no call to register.
  register_waiter()
elseif #live < places then
  ring_next(name)
  now_at_limit = at_limit and text('%s %d', running, now_ms)
else
  -- Other processes would get no job either. The end of a lease rings.
  now_at_limit = running
  register_waiter()
end
if now_at_limit and now_at_limit ~= at_limit then
  call('HSET', of_queue, 'at_limit', now_at_limit)
elseif at_limit and not now_at_limit then
  call('HDEL', of_queue, 'at_limit')
end
return reply
