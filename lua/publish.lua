#!lua
-- publish: numbers new jobs, writes their records and makes each ready or sets its timer.
-- KEYS[1] queues   hash, queue name → queue number
-- ARGV[1] prefix   of the bucket's keys
-- ARGV[2] now      ms, '' = Redis's clock
-- ARGV[3] name     namespace/queue
-- ARGV[4] replaced number of a job of this queue to delete in the same step, '' = none
-- ARGV[5] nonce    of the replaced job
-- ARGV[6] created  of the replaced job, in ms
-- ARGV[7] upload   name of the payloads that were uploaded before, '' = none were
-- ARGV[8] header   of the first job, with its delay as due time and its time to live as expiry
-- ARGV[9] payload  of the first job, '' = uploaded; header and payload of the others follow
-- Returns ok → now_ms, number of the first job; the others follow in order
-- Returns missing → an uploaded payload is not there (any more); nothing changed
-- Since layout 1

local name, replaced, replaced_nonce, replaced_ms, upload, first_job = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], 8
local jobs = (#ARGV - first_job + 1) / 2

-- Where the payload of a job waits: payloads of the same call are numbered from 0.
local function uploaded(i)
  return prefix .. 'upload:' .. upload .. ':' .. i
end

for i = 0, jobs - 1 do
  if ARGV[first_job + 2 * i + 1] == '' and redis.call('EXISTS', uploaded(i)) == 0 then return { 'missing' } end
end

local queue = tonumber(redis.call('HGET', KEYS[1], name))
if not queue then
  queue = redis.call('HINCRBY', KEYS[1], '#', 1)
  redis.call('HSET', KEYS[1], name, queue)
  redis.call('HSET', prefix .. 'q:' .. queue, 'name', name)
end

if replaced ~= '' then
  local job = find(KEYS[1], name, replaced, replaced_nonce, replaced_ms)
  if job then delete(job) end
end

-- Timers with the same due time come in the order of their numbers' text. Numbers begin at seven digits, so
-- that is the order of publishing for the first nine million jobs, and after them except at a change of length.
local FIRST_NUMBER = 1000001

local last = redis.call('INCRBY', prefix .. 'seq', jobs)
if last == jobs then last = redis.call('INCRBY', prefix .. 'seq', FIRST_NUMBER - 1) end
local first = last - jobs + 1
for i = 0, jobs - 1 do
  local header, payload = ARGV[first_job + 2 * i], ARGV[first_job + 2 * i + 1]
  local job = unpack_header(header)
  place(job, first + i)
  job.queue, job.created_ms = queue, now_ms
  if job.expires_ms > 0 then job.expires_ms = from_ms + job.expires_ms end
  if job.state == DELAYED then
    job.due_ms = from_ms + job.due_ms
    count(queue, DELAYED, 1)
    hint(job)
  else
    job.due_ms = now_ms
    arrive(job)
  end
  if bit.band(job.flags, BODY_OUTSIDE) ~= 0 then
    local body = prefix .. 'body:' .. job.number
    if payload == '' then
      redis.call('RENAME', uploaded(i), body)
      redis.call('PERSIST', body)
    else
      redis.call('SET', body, payload)
      payload = ''
    end
  end
  redis.call('HSET', prefix .. 'c:' .. job.chunk, job.field, pack(job) .. payload)
  expire_later(job)
end
settle()
return { 'ok', now_ms, first }
