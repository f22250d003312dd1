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

if redis.call('GET', KEYS[1]) ~= token then return { 'lost' } end

local near = prefix .. 'near'

local numbers = redis.call('ZRANGE', near, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, limit)
local buried, expiries, stale, latenesses, not_yet_due = 0, 0, 0, {}, {}

local function bury(job)
  count(job.queue, DEAD, 1)
  job.state, job.expires_ms = DEAD, 0
  redis.call('RPUSH', prefix .. 'dead:' .. job.queue, job.number)
  buried = buried + 1
end

local function move(job)
  count(job.queue, job.state, -1)
  if job.tries > 0 then
    arrive(job)
    latenesses[#latenesses + 1] = now_ms - job.due_ms
  else
    bury(job)
  end
  write(job)
end

for _, number in ipairs(numbers) do
  local job = read(number)
  if not job or (job.state ~= DELAYED and job.state ~= LEASED) then
    stale = stale + 1
  elseif expired(job) then
    delete(job)
    expiries = expiries + 1
  elseif job.due_ms > now_ms then
    not_yet_due[#not_yet_due + 1] = job
  else
    move(job)
  end
end
if #numbers > 0 then redis.call('ZREM', near, unpack(numbers)) end
for _, job in ipairs(not_yet_due) do hint(job) end
settle()

local head = redis.call('ZRANGE', near, 0, 0, 'WITHSCORES')[2]
local more = head and tonumber(head) <= now_ms and 1 or 0
local wait_us = head and math.max(0, head * 1000 - now_us) or -1
return { 'ok', more, wait_us, buried, expiries, stale, unpack(latenesses) }
