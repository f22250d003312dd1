#!lua flags=allow-oom
-- audit_index: checks again, atomically, an index entry that seemed inconsistent, and repairs it if asked to.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] repair   1 = repair, 0 = only check
-- ARGV[4] what   to check: due, slot, name, unnamed, number, sequence, body, next, next_body, log, key, ttl or line
-- ARGV[5] item   number of a queue (due, unnamed, number) or job (sequence, body, next,
--   next_body, log), slot, name, hash of a key (key), key without prefix (ttl), queue and line (line): 17:4
-- ARGV[6] detail name: the queue number that it has; ttl: longest time to live of the key in ms, 0 = none
-- Returns sound → it is consistent; nothing changed
-- Returns inconsistent → it is inconsistent; nothing changed. With repair = 1: it cannot be repaired automatically
-- Returns repaired → it was inconsistent, and is repaired
-- Changes: the index, key or time to live that it repairs; sends alarms
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include records, lines, groups, settle

local names, repair, what, item, detail = KEYS[1], ARGV[3] == '1', ARGV[4], ARGV[5], ARGV[6]
local function key(kind) return prefix .. kind .. ':' .. item end

-- Each check returns nil if the item is consistent, else a function that repairs it; UNKNOWN = it cannot be repaired.
local looks, UNKNOWN = {}, true

-- A queue whose near timers move_due would serve too late, or never.
function looks.due()
  local head_ms, at_ms = call('ZRANGE', key('near'), 0, 0, 'WITHSCORES')[2], call('ZSCORE', prefix .. 'due', item)
  if not head_ms or at_ms and tonumber(at_ms) <= tonumber(head_ms) then return end
  return function()
    call('ZADD', prefix .. 'due', head_ms, item)
    alarm('move_due', 'due', tonumber(head_ms))
  end
end

-- A far slot that load_slot would load too late, or never; or an index entry without a slot.
function looks.slot()
  local level, slot = string.match(item, '^(%d):(%d+)$')
  local load_ms, at_ms = load_at(tonumber(level), tonumber(slot)), call('ZSCORE', prefix .. 'slots', item)
  local exists = call('EXISTS', key('far')) == 1
  if exists and at_ms and tonumber(at_ms) <= load_ms or not exists and not at_ms then return end
  return function()
    if not exists then return call('ZREM', prefix .. 'slots', item) end
    call('ZADD', prefix .. 'slots', text('%d', load_ms), item)
    alarm('load_slot', 'slots', load_ms)
  end
end

-- A name with a queue number, where the hash of the queue has no name, or another one.
function looks.name()
  if queue_in_bucket(call('HGET', names, item)) ~= tonumber(detail) then return end
  local name = call('HGET', prefix .. 'q:' .. detail, 'name')
  if name then return name ~= item and UNKNOWN or nil end
  return function() call('HSET', prefix .. 'q:' .. detail, 'name', item) end
end

-- A queue without an entry in queues. It gets its name back unless another queue has the name. If it has no name, its
-- keys are deleted; its jobs were set aside before.
function looks.unnamed()
  local name = call('HGET', key('q'), 'name')
  local owner = name and call('HGET', names, name)
  if owner then return queue_in_bucket(owner) ~= tonumber(item) and UNKNOWN or nil end
  local has_turns = call('EXISTS', key('turns')) == 1
  if name then
    return function()
      call('HSET', names, name, (has_turns and '+' or '') .. item)
      count(names, count_field(name), 1)
      ring_next(name)
    end
  end
  local parts = { key('q'), key('near'), key('ready'), key('dead'), key('turns'), key('running') }
  if call('EXISTS', unpack(parts)) == 0 then return end
  return function()
    -- Lines without a turn are left; the check `line` follows for them.
    for _, line in ipairs(call('ZRANGE', key('turns'), 0, -1)) do call('DEL', key('ready') .. line) end
    call('DEL', unpack(parts))
    call('ZREM', prefix .. 'due', item)
  end
end

-- A queue number above the last one: it would be assigned again.
function looks.number()
  if tonumber(call('HGET', names, '#') or 0) >= tonumber(item) then return end
  return function() call('HSET', names, '#', item) end
end

-- A job number above the last one: a new job would overwrite the record.
function looks.sequence()
  if tonumber(call('GET', prefix .. 'seq') or 0) >= tonumber(item) or not read(item) then return end
  return function() call('SET', prefix .. 'seq', item) end
end

-- A key that belongs to a job whose record has this flag. Of a record that cannot be read it is not known.
local function belongs_to(flag)
  return function()
    local record = call('HGET', chunks .. sub(item, 1, -3), sub(item, -2))
    local job = unpack_header(item, record)
    if call('EXISTS', key(what)) == 0 or record and (not job or has(job, flag)) then return end
    return function() call('DEL', key(what)) end
  end
end

looks.body, looks.log = belongs_to(BODY_OUTSIDE), belongs_to(LOGGED)
looks.next, looks.next_body = belongs_to(NEXT_WAITS), belongs_to(NEXT_WAITS)

-- An entry in the index of keys whose job does not have the key.
function looks.key()
  local number = call('HGET', key_index(item), item)
  local job = number and read(number)
  if not number or job and key_hash(job[RECORD], job[FLAGS]) == item then return end
  return function() call('HDEL', key_index(item), item) end
end

-- A line without a turn, or held although its group is not full, or of a queue without the mark that it has lines: its jobs
-- would not be taken. Or a turn of a line without hints.
function looks.line()
  local queue, line = string.match(item, '^(%d+)(:.*)$')
  local has_turn, name = call('ZSCORE', prefix .. 'turns:' .. queue, line), call('HGET', prefix .. 'q:' .. queue, 'name')
  if call('EXISTS', prefix .. 'ready:' .. item) == 0 then
    return has_turn and function() call('ZREM', prefix .. 'turns:' .. queue, line) end
  end
  -- The check `unnamed` follows for a queue without a name or an entry.
  local value = name and call('HGET', names, name)
  local held_for = has_turn and tonumber(has_turn) >= HELD and call('HGET', prefix .. 'q:' .. queue, 'held_for')
  local group = string.match(line, '^:%d:(.+)$')
  local is_held = held_for and group and leased_in(call('HGET', prefix .. 'running:' .. queue, group)) >= (tonumber(string.match(held_for, '^%d+') or '') or math.huge)
  local has_right_turn = has_turn and (tonumber(has_turn) < HELD or is_held)
  if not value or has_right_turn and value ~= queue then return end
  return function()
    set_turns(queue, first_turn(line), { line }, has_right_turn)
    mark(name, queue)
    ring_next(name)
  end
end

function looks.ttl()
  local left_ms, longest_ms = call('PTTL', prefix .. item), tonumber(detail)
  -- A clock that is set back lengthens it, so up to twice as long is right.
  if left_ms == -2 or longest_ms == 0 and left_ms == -1 or left_ms >= 0 and left_ms <= 2 * longest_ms then return end
  return function()
    if longest_ms == 0 then call('PERSIST', prefix .. item) else call('PEXPIRE', prefix .. item, longest_ms) end
  end
end

local mending = looks[what]()
if not mending then return { 'sound' } end
if not repair or mending == UNKNOWN then return { 'inconsistent' } end
mending()
return { 'repaired' }
