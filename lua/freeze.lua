#!lua flags=allow-oom
-- freeze: puts references to the cold tier in the place of payloads that have been stored there.
-- KEYS[1] lock    token of the pump that leads the bucket
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] token   of the calling pump
-- ARGV[4] slots   number of far slots that follow
-- Then for each of these: slot, how many of its hints have been looked at
-- Then for each job: number, payload, reference
-- Returns ok → number of jobs that are cold now; bytes of their payloads
-- Returns lost → the caller does not lead the bucket; nothing changed
-- Changes: records of delayed jobs that still have this payload, unless the partition is closed, or they are due before
--   it; deletes their bodies
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include records, changes, settle

local token, at = ARGV[3], 5

if call('GET', KEYS[1]) ~= token then return { 'lost' } end

for _ = 1, tonumber(ARGV[4]) do
  call('HSET', prefix .. 'cold_walk', ARGV[at], ARGV[at + 1])
  at = at + 2
end

local closed = tonumber(call('HGET', prefix .. 'cold', 'closed') or -1)
local frozen, frozen_bytes = 0, 0

local function may_go(job, reference)
  local partition = struct.unpack('>I3', reference)
  return job and job[STATE] == DELAYED and not has(job, COLD) and partition > closed and job[DUE_MS] >= partition * PARTITION_MS
end

local function freeze(job, payload, reference)
  job[RECORD] = sub(job[RECORD], 1, head_bytes(job)) .. reference
  job[FLAGS] = bit.bor(job[FLAGS], COLD + BODY_OUTSIDE)
  rewrite(job)
  frozen, frozen_bytes = frozen + 1, frozen_bytes + #payload
end

local numbers = {}
for i = at, #ARGV, 3 do numbers[#numbers + 1] = ARGV[i] end
read_ahead(numbers)

-- One command for all bodies: a command costs more than the Lua around it.
local outside, keys, unused = {}, {}, {}
for i = at, #ARGV, 3 do
  local job, payload = read(ARGV[i]), ARGV[i + 1]
  if may_go(job, ARGV[i + 2]) then
    if has(job, BODY_OUTSIDE) then
      outside[#outside + 1], keys[#keys + 1] = i, prefix .. 'body:' .. ARGV[i]
    elseif sub(job[RECORD], head_bytes(job) + 1) == payload then
      freeze(job, payload, ARGV[i + 2])
    end
  end
end
local bodies = #keys > 0 and call('MGET', unpack(keys))
for k, i in ipairs(outside) do
  local job = read(ARGV[i])
  -- A job with two hints is there twice.
  if bodies[k] == ARGV[i + 1] and not has(job, COLD) then
    freeze(job, ARGV[i + 1], ARGV[i + 2])
    unused[#unused + 1] = keys[k]
  end
end
if #unused > 0 then call('DEL', unpack(unused)) end
settle()
return { 'ok', frozen, frozen_bytes }
