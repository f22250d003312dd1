#!lua
-- schedule_publish: publishes the jobs of ticks and sets the next ticks, where the caller has read the stored tick.
-- KEYS[1] queues    hash: namespace/queue → queue number
-- ARGV[1] prefix    of the bucket's keys
-- ARGV[2] now       ms; '' = Redis's clock
-- ARGV[3] namespace of the first schedule; no schedule is twice in a call
-- ARGV[4] schedule  its name
-- ARGV[5] revision  of its definition that the caller has read
-- ARGV[6] tick      that the caller has read, ms
-- ARGV[7] next      tick, ms; '' = the schedule has ended
-- ARGV[8] ran       the tick for which the job is published, ms; '' = the ticks that are due are left out
-- ARGV[9] queue     of the job: its name in the namespace
-- ARGV[10] max_jobs the queue may have in this bucket; '' = not limited
-- ARGV[11] overlap  what happens to an unfinished job of the schedule: keep or replace; '' = it has no key
-- ARGV[12] header   of the job, as publish takes it
-- ARGV[13] payload  of the job; not empty. Eleven values of each further schedule follow
-- Returns ok → 1 if more ticks are due else 0, ms until the next tick that is not due or -1, then the outcome of each: 0 = left out,
--   1 = created, 2 = exists, 3 = rerun, 4 = replaced, 5 = revived, 9 = the queue is full, and the tick left out, 11 = revision or tick are
--   not as the caller has read them: nothing changed
-- Changes: the next ticks; adds or replaces jobs, adds queues that are new; sends doorbells and alarms
-- Errors: the errors of scripts that write (prelude.lua), among them OOM at maxmemory
-- Since layout 2
-- Invariant: a tick is compared and set in the step that publishes, so each tick is published once, however many pumps there are.
--- include records, changes, versions, settle

local LEFT_OUT, MOVED, VALUES = 0, 11, 11
local schedules = prefix .. 'schedules'

-- By name of the queue: its number, and how many more jobs it may have.
local queue_numbers, rooms = {}, {}
local last

-- Publishes the job of a tick; returns the outcome.
local function publish(name, max_jobs, overlap, header, payload)
  local queue = queue_numbers[name] or tonumber(call('HGET', KEYS[1], name))
  local hash = overlap ~= '' and key_hash(header, struct.unpack('>H', header, 3))
  local job = hash and queue and keyed(queue, hash)
  -- One that is done is not in the way, even while its result is kept.
  local is_over = job and (expired(job) or job[STATE] == DONE)
  if job and not is_over then
    return rarely().publish_existing(job, overlap, rarely().version_of(header, payload, ''))
  end
  if max_jobs ~= '' then
    local room = rooms[name] or rarely().room_for(queue, tonumber(max_jobs))
    rooms[name] = room - 1
    if room < 1 then return QUEUE_FULL end
  end
  if is_over then rarely().replace_done(job) end
  queue = queue or rarely().add_queue(KEYS[1], name)
  queue_numbers[name] = queue
  last = next_number(last or max(tonumber(call('GET', prefix .. 'seq') or 0), BEFORE_FIRST), header, payload)
  local field = text('%d', last)
  if hash then call('HSET', key_index(hash), hash, field) end
  local changes = changes_of(queue)
  local state, _, _, flags = store_new(queue, field, header, payload)
  changes[state], changes.arrivals = changes[state] + 1, (changes.arrivals or 0) + 1
  if state == READY then add_ready(changes, field, line_of(flags, header)) end
  return CREATED
end

local reply, ticks_by_namespace = { 'ok', 0, -1 }, {}
-- Calls that set ticks. They precede the calls that store jobs: an error in between would lose jobs, not publish them twice.
local settings = {}

local function set_tick(namespace, name, of_schedule, next_tick, ran)
  local ticks = prefix .. 'ticks:' .. namespace
  ticks_by_namespace[namespace] = ticks
  if next_tick == '' then
    add(settings, 'calls', { 'HDEL', of_schedule, 'tick' })
    add(settings, 'calls', { 'ZREM', ticks, name })
  else
    add(settings, 'calls', { 'HSET', of_schedule, 'tick', next_tick })
    -- One with a further tick that is due waits until all others have had their turns.
    add(settings, 'calls', { 'ZADD', ticks, tonumber(next_tick) > now_ms and next_tick or next_turn(ticks), name })
  end
  if ran ~= '' then add(settings, 'calls', { 'HSET', of_schedule, 'ran', ran }) end
end

for i = 3, #ARGV, VALUES do
  local namespace, name, known_revision, known_tick, next_tick, ran = unpack(ARGV, i, i + 5)
  local of_schedule, outcome = prefix .. 'sched:' .. namespace .. '/' .. name, MOVED
  local revision, tick = unpack(call('HMGET', of_schedule, 'revision', 'tick'))
  if revision == known_revision and tick == known_tick then
    set_tick(namespace, name, of_schedule, next_tick, ran)
    outcome = ran == '' and LEFT_OUT or publish(namespace .. '/' .. ARGV[i + 6], unpack(ARGV, i + 7, i + 10))
  end
  reply[#reply + 1] = outcome
end

for _, setting in ipairs(settings.calls or {}) do call(unpack(setting)) end
for namespace, ticks in pairs(ticks_by_namespace) do due_again(schedules, namespace, ticks) end
-- Ticks that have run at a time that is still to come show that the clock was set back.
call('HSET', prefix .. 'stale', 'ticked', text('%d', now_ms))
if last then call('SET', prefix .. 'seq', text('%d', last)) end
settle()
local has_due, next_ms = due_and_next(schedules)
if has_due then reply[2] = 1 end
if next_ms then reply[3] = max(0, next_ms - now_ms) end
return reply
