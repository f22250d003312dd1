#!lua
-- publish: stores new jobs, each ready at once or delayed.
-- KEYS[1] queues   hash: namespace/queue → queue number, or "closed <epoch> <queue number>" if its lane is closed here
-- ARGV[1] prefix   of the bucket's keys
-- ARGV[2] now      ms; '' = Redis's clock
-- ARGV[3] name     namespace/queue
-- ARGV[4] replaced number of a job of this queue to delete in the same call; '' = none
-- ARGV[5] nonce    of the replaced job; '' = none
-- ARGV[6] created  of the replaced job, in ms; '' = none
-- ARGV[7] upload   name under which payloads were uploaded before the call; '' = none
-- ARGV[8] max_jobs the queue may have in this bucket with the new ones; '' = not limited
-- ARGV[9] max_queues that the namespace may have in this bucket
-- ARGV[10] header  of the first job; its due time is the delay in ms, or an instant + 2^46, its expiry the time to live in
--   ms (0 = none). The extension follows, if there is one
-- ARGV[11] payload of the first job; '' = uploaded. Header and payload of each further job follow
-- Returns ok → now_ms, then the first number and the length of each run of consecutive job numbers
-- Returns closed → the lane is closed; nothing changed
-- Returns full → how many jobs max_jobs leaves room for, fewer than these; nothing changed
-- Returns namespace_full → the queue is new, and its namespace has max_queues queues in this bucket; nothing changed
-- Returns missing → an uploaded payload does not exist, or has expired; nothing changed
-- Changes: adds the jobs, and the queue if it is new; deletes the replaced job; sends doorbell and alarm
-- Errors: the errors of scripts that write (prelude.lua), among them OOM at maxmemory
-- Since layout 2
--- include records, changes, versions, settle

local name, replaced, replaced_nonce, replaced_ms, upload, first_job = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], 10

-- The key of an uploaded payload, by the index of the job's header in ARGV. Payloads are numbered from 0.
local function uploaded(i) return prefix .. 'upload:' .. upload .. ':' .. text('%d', (i - first_job) / 2) end

for i = first_job, #ARGV, 2 do
  if ARGV[i + 1] == '' and call('EXISTS', uploaded(i)) == 0 then return { 'missing' } end
end

local known = call('HGET', KEYS[1], name)
local queue = tonumber(known)
if known and not queue then return { 'closed' } end
if not queue and rarely().namespace_is_full(KEYS[1], name, ARGV[9]) then return { 'namespace_full' } end
local old = queue and replaced ~= '' and rarely().stored(queue, replaced, replaced_nonce, replaced_ms)

local count_all = (#ARGV - first_job + 1) / 2
if ARGV[8] ~= '' then
  local room = rarely().room_for(queue, tonumber(ARGV[8])) + (old and 1 or 0)
  if room < count_all then return { 'full', max(0, room) } end
end

queue = queue or rarely().add_queue(KEYS[1], name)
if old then rarely().delete(old) end

local seq = call('INCRBY', prefix .. 'seq', count_all)
local last = max(seq - count_all, BEFORE_FIRST)
local changes, reply, filled, first_line, listed, ready, expected = changes_of(queue), { 'ok', now_ms }, 2, {}, 0, 0, nil
for i = first_job, #ARGV, 2 do
  local header, payload = ARGV[i], ARGV[i + 1]
  last = next_number(last, header, payload)
  local number = text('%d', last)
  local state, _, _, flags = store_new(queue, number, header, payload, payload == '' and uploaded(i))
  if state == READY then
    ready = ready + 1
    local line = line_of(flags, header)
    if line == '' then
      listed = listed + 1
      first_line[listed] = number
    else
      rarely().add_ready(changes, number, line)
    end
  end
  if last ~= expected then
    filled = filled + 2
    reply[filled - 1], reply[filled] = last, 0
  end
  reply[filled], expected = reply[filled] + 1, last + 1
end
if last ~= seq then call('SET', prefix .. 'seq', text('%d', last)) end
changes[DELAYED], changes[READY] = changes[DELAYED] + count_all - ready, changes[READY] + ready
changes.arrivals = count_all
if listed > 0 then changes.ready = first_line end
settle()
return reply
