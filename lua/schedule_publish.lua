#!lua
-- schedule_publish: publishes the job of a tick and sets the next tick, if the tick is still the one that the caller has read.
-- KEYS[1] queues   hash: namespace/queue → queue number
-- ARGV[1] prefix   of the bucket's keys
-- ARGV[2] now      ms; '' = Redis's clock
-- ARGV[3] name     namespace/queue
-- ARGV[4] schedule namespace/schedule
-- ARGV[5] revision of its definition that the caller has read
-- ARGV[6] tick     that the caller has read, ms
-- ARGV[7] next     tick, ms; '' = the schedule has ended
-- ARGV[8] ran      the tick for which the job is published, ms; '' = the ticks that are due are left out
-- ARGV[9] max_jobs the queue may have in this bucket; '' = not limited
-- ARGV[10] overlap what happens to an unfinished job of the schedule: keep or replace; '' = it has no key
-- ARGV[11] header  of the job, as publish takes it
-- ARGV[12] payload of the job; not empty
-- Returns ok → outcome, number and nonce of the job (0 = none). Outcomes: 0 = left out, 1 = created, 2 = exists, 3 = rerun, 4 =
--   replaced, 5 = revived, 9 = the queue is full, and the tick left out
-- Returns moved → revision or tick are not as the caller has read them; nothing changed
-- Changes: the next tick; adds or replaces a job, adds the queue if it is new; sends doorbell and alarms
-- Errors: those of scripts that write (prelude.lua), among them OOM at maxmemory
-- Since layout 2
-- Invariant: the tick is compared and set in the step that publishes, so each tick is published once, however many pumps there are.
-- Rarely calls: delete, publish_existing, version_of, room_for, store_body, add_queue

local name, schedule_name, next_tick, ran, max_jobs = ARGV[3], ARGV[4], ARGV[7], ARGV[8], ARGV[9]
local overlap, header, payload = ARGV[10], ARGV[11], ARGV[12]
local of_schedule, schedules = prefix .. 'sched:' .. schedule_name, prefix .. 'schedules'

local revision, tick = unpack(call('HMGET', of_schedule, 'revision', 'tick'))
if revision ~= ARGV[5] or tick ~= ARGV[6] then return { 'moved' } end

-- The tick is set before the job is stored: an error in between would lose one job, not publish two.
if next_tick == '' then
  call('HDEL', of_schedule, 'tick')
  call('ZREM', schedules, schedule_name)
else
  call('HSET', of_schedule, 'tick', next_tick)
  call('ZADD', schedules, next_tick, schedule_name)
end
if ran == '' then return { 'ok', 0, 0, 0 } end
call('HSET', of_schedule, 'ran', ran)

local queue = tonumber(call('HGET', KEYS[1], name))
local hash = overlap ~= '' and key_hash(header, struct.unpack('>H', header, 3))
local job = hash and queue and keyed(queue, hash)
-- One that is done is not in the way, even while its result is kept.
if job and (expired(job) or job[STATE] == DONE) then
  if job[FLAGS] < AWAITED or expired(job) then delete(job) end
  job = nil
end

if job then
  local outcome = publish_existing(job, overlap, version_of(header, payload, ''))
  settle()
  return { 'ok', outcome, tonumber(job[NUMBER]), job[NONCE] }
end
if max_jobs ~= '' and room_for(queue, tonumber(max_jobs)) < 1 then
  settle()
  return { 'ok', QUEUE_FULL, 0, 0 }
end
queue = queue or add_queue(KEYS[1], name)
local number = next_number(max(tonumber(call('GET', prefix .. 'seq') or 0), BEFORE_FIRST), header, payload)
local field = text('%d', number)
call('SET', prefix .. 'seq', field)
if hash then call('HSET', key_index(hash), hash, field) end
local state, _, nonce = store_new(queue, field, header, payload)
local changes = changes_of(queue)
changes[state], changes.arrivals = changes[state] + 1, 1
if state == READY then add(changes, 'ready', field) end
settle()
return { 'ok', CREATED, number, nonce }
