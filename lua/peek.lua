#!lua flags=allow-oom
-- peek: shows a job without taking it.
-- KEYS[1] queues hash, queue name → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms, '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] which  ready or dead = the queue's oldest job in that state, job = the one with this number
-- ARGV[5] number of the job; otherwise the stale hints that one call may drop before it stops
-- ARGV[6] nonce  of the job; otherwise ''
-- ARGV[7] created of the job, in ms; otherwise ''
-- ARGV[8] carry  bytes up to which a payload outside of its record comes along; a record without is its header
-- Returns ok → now_ms, number and record of the job
-- Returns none → there is no such job
-- Returns again → stale hints were dropped and more remain: call again
-- Since layout 1

local name, which, number, nonce, created_ms = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local carry = tonumber(ARGV[8])
local queue = tonumber(call('HGET', KEYS[1], name))

local function shown(job)
  return { 'ok', now_ms, tonumber(job.number), whole(job, carry) }
end

local function oldest(state, stale_left)
  local list = prefix .. STATES[state] .. ':' .. queue
  while stale_left > 0 do
    local head = call('LINDEX', list, 0)
    if not head then return { 'none' } end
    local job = hinted(head, state, queue)
    if job then
      if not expired(job) then return shown(job) end
      delete(job)
    end
    call('LPOP', list)
    stale_left = stale_left - 1
  end
  return { 'again' }
end

if which == 'job' then
  local job = find(queue, number, nonce, created_ms)
  return job and shown(job) or { 'none' }
end
if not queue then return { 'none' } end
local reply = oldest(which == 'ready' and READY or DEAD, tonumber(number))
settle()
return reply
