#!lua
-- thaw: puts payloads of the cold tier back into the records that refer to them.
-- KEYS[1] lock    token of the pump that leads the bucket
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] token   of the calling pump
-- ARGV[4] limit   most bytes of a payload in a record
-- Then for each job: number, reference, payload
-- Returns ok → number of jobs that have their payload back
-- Returns lost → the caller does not lead the bucket; nothing changed
-- Changes: records that have this reference; stores bodies
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include records, changes, versions, settle

local token, inline_bytes = ARGV[3], tonumber(ARGV[4])

if call('GET', KEYS[1]) ~= token then return { 'lost' } end

local thawed = 0

local function thaw(job, payload)
  local head = sub(job[RECORD], 1, head_bytes(job))
  job[FLAGS] = bit.band(job[FLAGS], bit.bnot(COLD + BODY_OUTSIDE))
  if #payload > inline_bytes or not fits(job[NUMBER], #head + #payload) then
    call('SET', prefix .. 'body:' .. job[NUMBER], payload)
    job[FLAGS], payload = job[FLAGS] + BODY_OUTSIDE, ''
  end
  job[RECORD] = head .. payload
  rewrite(job)
  thawed = thawed + 1
end

local numbers = {}
for i = 5, #ARGV, 3 do numbers[#numbers + 1] = ARGV[i] end
read_ahead(numbers)
for i = 5, #ARGV, 3 do
  local job = read(ARGV[i])
  if job and has(job, COLD) and sub(job[RECORD], head_bytes(job) + 1) == ARGV[i + 1] then thaw(job, ARGV[i + 2]) end
end
settle()
return { 'ok', thawed }
