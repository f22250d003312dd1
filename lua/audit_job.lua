#!lua flags=allow-oom
-- audit_job: looks again at a job that seems amiss, in one step, and mends it if asked to.
-- KEYS[1] corrupt  hash, job number → record: what was set aside
-- ARGV[1] prefix   of the bucket's keys
-- ARGV[2] now      ms, '' = Redis's clock
-- ARGV[3] mend     1 = mend what is found, 0 = only look
-- ARGV[4] what     seems amiss: timer, list, expiry, body, queue or record
-- ARGV[5] number   of the job
-- ARGV[6] header   the record's first bytes when it seemed amiss
-- ARGV[7] pause_ms least time between two looks of the sweep at one chunk
-- Returns sound → nothing is amiss, or the record has changed: whoever changed it saw to its hints
-- Returns amiss → nothing changed
-- Returns mended → it was amiss
-- Since layout 1
-- Invariant: no record and no body is destroyed. What cannot be a job again is set aside under other keys.

local mend, what, number, header, pause_ms = ARGV[3] == '1', ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])

local chunk, field = sub(number, 1, -3), sub(number, -2)
local record = call('HGET', chunks .. chunk, field)
if not record or sub(record, 1, #header) ~= header then return { 'sound' } end
local job = unpack_header(number, record)
local body = prefix .. 'body:' .. number

local function has_name()
  return call('HEXISTS', prefix .. 'q:' .. text('%d', job.queue), 'name') == 1
end

-- Lists are looked through by the caller, as are payloads: these depend on the record only.
local amiss = {
  timer = function()
    local at_ms = call('ZSCORE', prefix .. 'near:' .. text('%d', job.queue), number)
    return not at_ms or tonumber(at_ms) > job.due_ms
  end,
  list = function() return true end,
  expiry = function()
    local at_ms = call('ZSCORE', prefix .. 'expiry', chunk)
    -- The last sweep of the chunk was before the job expired. This holds even if the clock was set back since.
    return not at_ms or tonumber(at_ms) > job.expires_ms + pause_ms
  end,
  body = function() return call('EXISTS', body) == 0 end,
  queue = function() return not has_name() end,
  record = function() return true end,
}

local function set_aside()
  call('HSET', KEYS[1], number, record)
  if call('EXISTS', body) == 1 then call('RENAME', body, prefix .. 'corrupt:' .. number) end
  -- Whose queue is not known is in nobody's count.
  if job and has_name() then return delete(job) end
  call('HDEL', chunks .. chunk, field)
end

local mending = {
  timer = function() hint(job.queue, number, job.due_ms) end,
  list = function() add(changes_of(job.queue), STATES[job.state], number) end,
  expiry = function() expire_later(number, job.expires_ms) end,
  body = set_aside,
  queue = set_aside,
  record = set_aside,
}

if not amiss[what]() then return { 'sound' } end
if not mend then return { 'amiss' } end
mending[what]()
settle()
return { 'mended' }
