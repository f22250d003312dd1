#!lua flags=allow-oom
-- audit_job: checks again, atomically, a job that seemed inconsistent, and repairs it if asked to.
-- KEYS[1] corrupt  hash: job number → record that was set aside
-- ARGV[1] prefix   of the bucket's keys
-- ARGV[2] now      ms; '' = Redis's clock
-- ARGV[3] repair     1 = repair, 0 = only check
-- ARGV[4] what     to check: timer, list, expiry, body, queue, record or key
-- ARGV[5] number   of the job
-- ARGV[6] read     the record as the caller read it, or its first bytes
-- ARGV[7] pause_ms least time between two reads of a chunk by the sweep
-- Returns sound → it is consistent; or the record has changed, and the script that changed it set its hints
-- Returns inconsistent → it is inconsistent; nothing changed
-- Returns repaired → it was inconsistent, and is repaired
-- Changes: timer, list, expiry and key: adds the missing hint; body, queue and record: sets the record and its body aside
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
-- Invariant: no record and no body is deleted. A record that cannot be a job again is moved to other keys.
--- include records, changes, transitions, settle

local repair, what, number, read, pause_ms = ARGV[3] == '1', ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])

local chunk, field = sub(number, 1, -3), sub(number, -2)
local record = call('HGET', chunks .. chunk, field)
if not record or sub(record, 1, #read) ~= read then return { 'sound' } end
local job = unpack_header(number, record)
local body = prefix .. 'body:' .. number

local function has_name()
  return call('HEXISTS', prefix .. 'q:' .. text('%d', job[QUEUE]), 'name') == 1
end

-- The caller has read lists and payloads: for list and record an unchanged record is enough.
local inconsistent = {
  timer = function()
    local at_ms = call('ZSCORE', prefix .. 'near:' .. text('%d', job[QUEUE]), number)
    return not at_ms or tonumber(at_ms) > job[DUE_MS]
  end,
  list = function() return true end,
  expiry = function()
    local at_ms = call('ZSCORE', prefix .. 'expiry', chunk)
    -- The last sweep was before the job expired, so it set at most this score. Both are stored times: setting the clock
    -- back does not change the result.
    return not at_ms or tonumber(at_ms) > job[EXPIRES_MS] + pause_ms
  end,
  body = function() return call('EXISTS', body) == 0 and not has(job, COLD) end,
  queue = function() return not has_name() end,
  record = function() return true end,
  key = function()
    local hash = key_hash(job[RECORD], job[FLAGS])
    return hash and not keyed(job[QUEUE], hash)
  end,
}

local function set_aside()
  call('HSET', KEYS[1], number, record)
  if call('EXISTS', body) == 1 then call('RENAME', body, prefix .. 'corrupt:' .. number) end
  -- A job of an unknown queue is in no count.
  if job and has_name() then return delete(job) end
  call('HDEL', chunks .. chunk, field)
end

local mending = {
  timer = function() hint_for(job) end,
  list = function()
    local changes = changes_of(job[QUEUE])
    if job[STATE] == READY then add_ready(changes, number, line_of(job[FLAGS], job[RECORD])) else add(changes, 'dead', number) end
  end,
  expiry = function() expire_later(number, job[EXPIRES_MS]) end,
  body = set_aside,
  queue = set_aside,
  record = set_aside,
  key = function()
    local hash = key_hash(job[RECORD], job[FLAGS])
    call('HSET', key_index(hash), hash, number)
  end,
}

if not inconsistent[what]() then return { 'sound' } end
if not repair then return { 'inconsistent' } end
mending[what]()
settle()
return { 'repaired' }
