#!lua flags=no-writes
-- explain: returns a job, and what decides when it is delivered.
-- KEYS[1] queues  hash: namespace/queue → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] number  of the job; '' = it is named by its key
-- ARGV[5] nonce   of the job; the hash of its key
-- ARGV[6] created of the job, in ms; ''
-- ARGV[7] carry   largest body, in bytes, that is returned with its header; of a larger one only the header is returned
-- ARGV[8] ahead   most hints that are read to count the jobs before a ready one
-- Returns ok → now_ms, number and record of the job; for a ready job the number of live ones before it in its list, -1 = more
--   than were read, else 0; 1 if consumers wait for the queue else 0; jobs of the queue in this bucket that are leased; the
--   token of the pump that leads the bucket, '' = none
-- Returns none → there is no such job
-- Changes: nothing
-- Errors: those of every script (prelude.lua)
-- Since layout 2

local name, carry, most = ARGV[3], tonumber(ARGV[7]), tonumber(ARGV[8])
local queue = tonumber(call('HGET', KEYS[1], name))
local job = named(queue, ARGV[4], ARGV[5], ARGV[6])
if not job or expired(job) then return { 'none' } end

local function jobs_ahead()
  if job[STATE] ~= READY then return 0 end
  local ahead, numbers = 0, call('LRANGE', prefix .. 'ready:' .. queue, 0, most - 1)
  read_ahead(numbers)
  for _, number in ipairs(numbers) do
    if number == job[NUMBER] then return ahead end
    local other = hinted(number, READY, queue)
    if other and not expired(other) then ahead = ahead + 1 end
  end
  return -1
end

local leased = tonumber(call('HGET', prefix .. 'q:' .. queue, 'leased')) or 0
return { 'ok', now_ms, tonumber(job[NUMBER]), whole(job, carry), jobs_ahead(), is_waited_for(name) and 1 or 0, leased,
  call('GET', prefix .. 'lock') or '' }
