-- lines: for scripts that take or show ready jobs. The ready jobs of a queue with one priority and group are a line. The
-- first line has the jobs of priority 0 without a group, and is the list ready:<q>. Most queues have no other. Any other line
-- is the list ready:<q><line>, and while it has hints it is in turns:<q>, with its turn as its score: a line with a higher
-- priority has a lower one. The first line is there from the next reserve on. A queue that has had another line has + before
-- its number in queues, so that a reserve of other queues does not look for turns. Lines whose groups have as many leased
-- jobs as they may are held: they are behind all others (groups.lua).
--- include transitions

-- Scores of the lines of a priority begin at one multiple of this; the highest priority has the lowest scores. Those of lines
-- that are held begin at HELD.
local TURNS, HELD = 2^48, 2^51

-- The first score of the lines of the priority that this line has.
local function first_turn(line) return (PRIORITY_MAX - (tonumber(sub(line, 2, 2)) or 0)) * TURNS end

-- The number of a line's priority in the order of scores, from its score.
local function level_of(score) return floor(score / TURNS) end

-- Sets the turns of lines behind all turns of their priority, whose first one this is, or of lines that are held; with NX
-- only of a line that has none.
local function set_turns(queue, first, lines, nx)
  local turns = prefix .. 'turns:' .. queue
  local last = call('ZRANGE', turns, text('(%.0f', first + TURNS), text('%.0f', first), 'BYSCORE', 'REV', 'LIMIT', 0, 1,
    'WITHSCORES')[2] or first
  local scores = {}
  for i, line in ipairs(lines) do scores[2 * i - 1], scores[2 * i] = text('%.0f', last + i), line end
  if nx then call('ZADD', turns, 'NX', unpack(scores)) else call('ZADD', turns, unpack(scores)) end
end

-- Ends the turn of a line that has no hints. Returns whether it has none.
local function end_turn(queue, line)
  if call('EXISTS', prefix .. 'ready:' .. queue .. line) == 1 then return false end
  call('ZREM', prefix .. 'turns:' .. queue, line)
  return true
end

-- Whether a value of queues says that the queue has had other lines than the first.
local function has_lines(value) return value and string.byte(value) == 43 end

-- The line of a queue whose turn is next, lines that are held last; nil = none has a turn, and only the first line may have
-- hints.
local function next_line(queue) return call('ZRANGE', prefix .. 'turns:' .. text('%d', queue), 0, 0)[1] end

-- Whether lines of a queue with this in `held_for` are held for a lower limit than this one (nil = none). A damaged limit is
-- the lowest one.
local function is_held_for_less(held_for, group_limit)
  return held_for and (not group_limit or (tonumber(string.match(held_for, '^%d+') or 0)) < group_limit)
end

-- Whether a queue, by its number as text, has hints of ready jobs in lines that are not held for this limit of leased jobs
-- of a group ('' = none).
local function has_hints(queue, group_limit)
  if call('EXISTS', prefix .. 'ready:' .. queue) == 1 then return true end
  local first = call('ZRANGE', prefix .. 'turns:' .. queue, 0, 0, 'WITHSCORES')[2]
  if not first or tonumber(first) < HELD then return first end
  return rarely().is_held_for_less(call('HGET', prefix .. 'q:' .. queue, 'held_for'), tonumber(group_limit))
end

-- Marks that a queue has other lines than the first. A name without an entry, or with the entry of another queue or of a
-- closed lane, is left as it is.
local function mark(name, queue)
  if call('HGET', prefix .. 'queues', name) == queue then call('HSET', prefix .. 'queues', name, '+' .. queue) end
end

-- Adds the jobs of a call to other lines than the first. Returns whether one of these lines had no hints.
local function push_lines(queue, of_queue, changes)
  local number, was_empty = text('%d', queue), false
  for line, numbers in pairs(changes.lines) do
    local length = send(changes.at_head and 'LPUSH' or 'RPUSH', prefix .. 'ready:' .. number .. line, numbers)
    if length == #numbers then
      set_turns(number, first_turn(line), { line }, true)
      was_empty = true
    end
  end
  local name = was_empty and call('HGET', of_queue, 'name')
  if name then mark(name, number) end
  return was_empty
end

-- Drops up to `most` stale hints at the head of a list; of ready jobs it is the list of this line. Each is compared with
-- its record: a count may be wrong. Returns how many were dropped. It reads a few hints first: most lists have a live one.
local function drop_stale(state, queue, most, line)
  local list = prefix .. STATES[state] .. ':' .. text('%d', queue) .. (line or '')
  local stale, ahead, found = 0, 2, 0
  repeat
    local numbers = call('LRANGE', list, stale, min(stale + ahead, most) - 1)
    read_ahead(numbers)
    found = 0
    while found < #numbers and not hinted(numbers[found + 1], state, queue, line) do found = found + 1 end
    stale, ahead = stale + found, 8 * ahead
  until found == 0 or found < #numbers or stale == most
  if stale > 0 then call('LPOP', list, stale) end
  return stale
end

-- The same for the lines of a queue together: the first one, and up to this many of those whose turns come next.
local function drop_stale_ready(queue, most, lines)
  local number = text('%d', queue)
  most = most - drop_stale(READY, queue, most, '')
  for _, line in ipairs(call('ZRANGE', prefix .. 'turns:' .. number, 0, lines - 1)) do
    if most <= 0 then return end
    if line ~= '' then most = most - drop_stale(READY, queue, most, line) end
    end_turn(number, line)
  end
end
