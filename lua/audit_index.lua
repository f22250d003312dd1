#!lua flags=allow-oom
-- audit_index: looks again at what leads to jobs and seems amiss, in one step, and mends it if asked to.
-- KEYS[1] queues hash, queue name → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms, '' = Redis's clock
-- ARGV[3] mend   1 = mend what is found, 0 = only look
-- ARGV[4] what   seems amiss: due, slot, name, unnamed, number, sequence, body or ttl
-- ARGV[5] item   a queue's number (due, unnamed, number), a slot, a name, a job's number (sequence, body), a key behind
--   the prefix (ttl)
-- ARGV[6] detail name: the queue number that it has; ttl: the longest that the key may live, in ms, 0 = for ever
-- Returns sound → nothing is amiss (any more)
-- Returns amiss → nothing changed; with mend = 1 it cannot be mended without knowing more
-- Returns mended → it was amiss
-- Since layout 1

local names, mend, what, item, detail = KEYS[1], ARGV[3] == '1', ARGV[4], ARGV[5], ARGV[6]

local function key(kind) return prefix .. kind .. ':' .. item end

-- Each answers nothing where nothing is amiss, else what mends it: UNKNOWN = that takes somebody who knows more.
local looks, UNKNOWN = {}, true

-- Near timers of a queue that move_due does not know of in time.
function looks.due()
  local head_ms, at_ms = call('ZRANGE', key('near'), 0, 0, 'WITHSCORES')[2], call('ZSCORE', prefix .. 'due', item)
  if not head_ms or at_ms and tonumber(at_ms) <= tonumber(head_ms) then return end
  return function()
    call('ZADD', prefix .. 'due', head_ms, item)
    alarm('move_due', 'due', tonumber(head_ms))
  end
end

-- A far slot that load_slot does not know of in time, or a slot that is not there.
function looks.slot()
  local load_ms, at_ms = item * SLOT_MS - LEAD_MS, call('ZSCORE', prefix .. 'slots', item)
  local exists = call('EXISTS', key('far')) == 1
  if exists and at_ms and tonumber(at_ms) <= load_ms or not exists and not at_ms then return end
  return function()
    if not exists then return call('ZREM', prefix .. 'slots', item) end
    call('ZADD', prefix .. 'slots', text('%d', load_ms), item)
    alarm('load_slot', 'slots', load_ms)
  end
end

-- A name with a number whose queue does not know its name.
function looks.name()
  if queue_in_bucket(call('HGET', names, item)) ~= tonumber(detail) then return end
  local name = call('HGET', prefix .. 'q:' .. detail, 'name')
  if name then return name ~= item and UNKNOWN or nil end
  return function() call('HSET', prefix .. 'q:' .. detail, 'name', item) end
end

-- A queue that no name leads to. It gets its name back unless another queue has that. Without a name there is nothing
-- to keep: jobs that belong to it were set aside.
function looks.unnamed()
  local name = call('HGET', key('q'), 'name')
  local owner = name and call('HGET', names, name)
  if owner then return queue_in_bucket(owner) ~= tonumber(item) and UNKNOWN or nil end
  if name then return function() call('HSET', names, name, item) end end
  local parts = { key('q'), key('near'), key('ready'), key('dead') }
  if call('EXISTS', unpack(parts)) == 0 then return end
  return function()
    call('DEL', unpack(parts))
    call('ZREM', prefix .. 'due', item)
  end
end

-- A queue number above the last one: it would be given to another queue, too.
function looks.number()
  if tonumber(call('HGET', names, '#') or 0) >= tonumber(item) then return end
  return function() call('HSET', names, '#', item) end
end

-- A job number above the last one: another job would overwrite it.
function looks.sequence()
  if tonumber(call('GET', prefix .. 'seq') or 0) >= tonumber(item) or not read(item) then return end
  return function() call('SET', prefix .. 'seq', item) end
end

-- A body without a job. It belongs to a damaged record as long as that is there.
function looks.body()
  local record = call('HGET', chunks .. sub(item, 1, -3), sub(item, -2))
  local job = unpack_header(item, record)
  if call('EXISTS', key('body')) == 0 or record and (not job or bit.band(job.flags, BODY_OUTSIDE) ~= 0) then return end
  return function() call('DEL', key('body')) end
end

function looks.ttl()
  local left_ms, longest_ms = call('PTTL', prefix .. item), tonumber(detail)
  if left_ms == -2 or longest_ms == 0 and left_ms == -1 or left_ms >= 0 and left_ms <= longest_ms then return end
  return function()
    if longest_ms == 0 then call('PERSIST', prefix .. item) else call('PEXPIRE', prefix .. item, longest_ms) end
  end
end

local mending = looks[what]()
if not mending then return { 'sound' } end
if not mend or mending == UNKNOWN then return { 'amiss' } end
mending()
return { 'mended' }
