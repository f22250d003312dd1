#!lua flags=allow-oom
-- move_due: makes due jobs ready, or dead when their tries are used up, a bounded number per call.
-- KEYS[1] lock   the pump's token
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms, '' = Redis's clock
-- ARGV[3] token  of the pump
-- ARGV[4] limit  hints that one call may look at
-- Returns ok → 1 if more are due else 0, µs until the next due time or -1, jobs buried, jobs
--   expired, stale hints dropped, then the lateness in ms of each job made ready
-- Returns lost → the caller does not lead the bucket; nothing changed
-- Since layout 1
-- Invariant: a hint moves a job only if the record agrees, so no job moves twice whoever calls.

local token, limit = ARGV[3], tonumber(ARGV[4])

if call('GET', KEYS[1]) ~= token then return { 'lost' } end

-- Queues that one call serves: fewer, and many small queues take many calls; more, and each has a small share.
local QUEUES = 16
local index = prefix .. 'due'
local reply, buried, expirations, stale = { 'ok', 0, -1, 0, 0, 0 }, 0, 0, 0

local function move(job)
  if job.tries > 0 then
    turn(job, READY, 'ready')
    reply[#reply + 1] = now_ms - job.due_ms
  else
    turn(job, DEAD, 'dead')
    job.expires_ms = 0
    buried = buried + 1
  end
  rewrite(job)
end

-- Turns are scores below 0. No clock is part of them, so an order holds when the clock is set.
local last_turn
local function next_turn()
  last_turn = last_turn or call('ZRANGE', index, '(0', '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')[2] or -2^50
  last_turn = last_turn + 1
  return text('%d', last_turn)
end

-- The queues to serve. Those that wait for a turn and those that have become due leave half of the places to each other.
local function queues_due(places)
  local due = call('ZRANGE', index, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, places)
  if #due < places then return due end
  due = call('ZRANGE', index, '-inf', '(0', 'BYSCORE', 'LIMIT', 0, places)
  local others = call('ZRANGE', index, 0, now_ms, 'BYSCORE', 'LIMIT', 0, max(math.ceil(places / 2), places - #due))
  for i = 1, #others do due[places - #others + i] = others[i] end
  return due
end

-- Looks at up to so many hints of a queue; answers at how many, and whether more are due.
local function serve(queue, share)
  local near = prefix .. 'near:' .. queue
  local numbers = call('ZRANGE', near, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, share)
  read_ahead(numbers)
  for i = 1, #numbers do
    local job = read(numbers[i])
    if not job or (job.state ~= DELAYED and job.state ~= LEASED) then
      stale = stale + 1
    elseif expired(job) then
      delete(job)
      expirations = expirations + 1
    elseif job.due_ms > now_ms then
      hint(job.queue, job.number, job.due_ms)
    else
      move(job)
    end
  end
  if #numbers > 0 then call('ZREMRANGEBYRANK', near, 0, #numbers - 1) end
  local head_ms = call('ZRANGE', near, 0, 0, 'WITHSCORES')[2]
  local has_more = head_ms and tonumber(head_ms) <= now_ms
  if not head_ms then call('ZREM', index, queue) else call('ZADD', index, has_more and next_turn() or head_ms, queue) end
  return #numbers, has_more
end

-- Each queue has an equal share; what one does not need is there for another round.
local again
repeat
  local due = queues_due(min(QUEUES, limit))
  again = #due == QUEUES
  for i = 1, #due do
    local looked_at, has_more = serve(due[i], math.ceil(limit / (#due - i + 1)))
    -- An entry of the index that is too early counts too, so that a call is bounded.
    limit = limit - max(1, looked_at)
    again = again or has_more
  end
until limit <= 0 or not again
settle()

local head_ms = call('ZRANGE', index, 0, 0, 'WITHSCORES')[2]
if head_ms then
  reply[2] = tonumber(head_ms) <= now_ms and 1 or 0
  reply[3] = max(0, head_ms * 1000 - now_us)
end
reply[4], reply[5], reply[6] = buried, expirations, stale
return reply
