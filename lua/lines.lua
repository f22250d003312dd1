-- lines: for scripts that take or show ready jobs. The ready jobs of a queue with one priority are a line. The
-- first line has the jobs of priority 0, and is the list ready:<q>. Most queues have no other. Any other line is the list
-- ready:<q><line>, and while it has hints it is in turns:<q>, with its turn as its score: a line with a higher priority has
-- a lower one. The first line is there from the next reserve on. A queue that has had another line has + before its number
-- in queues, so that a reserve of other queues does not look for turns.
--- include transitions

-- Scores of the lines of a priority begin at one multiple of this; the highest priority has the lowest scores.
local TURNS = 2^48

-- Of this many jobs that are taken, the last one has a lower priority, if there are jobs of one.
local ROUND = 8

-- The first score of the lines of the priority that this line has.
local function first_turn(line) return (PRIORITY_MAX - (tonumber(sub(line, 2, 2)) or 0)) * TURNS end

-- The number of a line's priority in the order of scores, from its score.
local function level_of(score) return floor(score / TURNS) end

-- Sets the turn of a line behind the turns of all lines with its priority; with NX only if it has none.
local function set_turn(queue, line, nx)
  local turns, first = prefix .. 'turns:' .. queue, first_turn(line)
  local last = call('ZRANGE', turns, text('(%.0f', first + TURNS), text('%.0f', first), 'BYSCORE', 'REV', 'LIMIT', 0, 1,
    'WITHSCORES')[2] or first
  local turn = text('%.0f', last + 1)
  if nx then call('ZADD', turns, 'NX', turn, line) else call('ZADD', turns, turn, line) end
end

-- Ends the turn of a line that has no hints. Returns whether it has none.
local function end_turn(queue, line)
  if call('EXISTS', prefix .. 'ready:' .. queue .. line) == 1 then return false end
  call('ZREM', prefix .. 'turns:' .. queue, line)
  return true
end

-- Whether a value of queues says that the queue has had other lines than the first.
local function has_lines(value) return value and string.byte(value) == 43 end

-- The line of a queue whose turn is next; nil = none has a turn, and only the first line may have hints.
local function next_line(queue) return call('ZRANGE', prefix .. 'turns:' .. text('%d', queue), 0, 0)[1] end

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
      set_turn(number, line, true)
      was_empty = true
    end
  end
  local name = was_empty and call('HGET', of_queue, 'name')
  if name then mark(name, number) end
  return was_empty
end

-- Drops up to `most` stale hints at the head of a list; of ready jobs it is the list of this line. Each is compared with
-- its record: a count may be wrong. Returns how many were dropped.
local function drop_stale(state, queue, most, line)
  local list = prefix .. STATES[state] .. ':' .. text('%d', queue) .. (line or '')
  local numbers = call('LRANGE', list, 0, most - 1)
  read_ahead(numbers)
  local stale = 0
  while stale < #numbers and not hinted(numbers[stale + 1], state, queue, line) do stale = stale + 1 end
  if stale > 0 then call('LPOP', list, stale) end
  return stale
end

-- Most lines of a queue whose stale hints are dropped by one call.
local LINES_CLEANED = 16

-- The same for the lines of a queue: the first one, and those whose turns come next.
local function drop_stale_ready(queue, most)
  local number = text('%d', queue)
  drop_stale(READY, queue, most, '')
  for _, line in ipairs(call('ZRANGE', prefix .. 'turns:' .. number, 0, LINES_CLEANED - 1)) do
    if line ~= '' then drop_stale(READY, queue, most, line) end
    end_turn(number, line)
  end
end

-- Takes up to `most` hints from the head of a line, and adds the jobs that may be leased to `live`. Returns the number of
-- hints. A second hint of a job is stale from then on. Without `line` it is the only one of its queue.
local function take(queue, line, most, live)
  local numbers = call('LPOP', prefix .. 'ready:' .. text('%d', queue) .. (line or ''), most)
  if not numbers then return 0 end
  read_ahead(numbers)
  for i = 1, #numbers do
    local job = hinted(numbers[i], READY, queue, line)
    if job and expired(job) then
      rarely().delete(job)
    elseif job then
      job[STATE] = LEASED
      live[#live + 1] = job
    end
  end
  return #numbers
end

-- The level of the first line behind this level; nil if there is none.
local function level_behind(turns, level)
  local from = text('%.0f', (level + 1) * TURNS)
  local score = call('ZRANGE', turns, from, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  return score and level_of(score)
end

-- Most stale hints that are dropped together.
local STALE_TAKEN = 100

-- Takes up to `most` hints of a level, one of each line in turn, and stale hints behind them. Returns how many.
local function take_of_level(queue, turns, level, most, live)
  local first, number = level * TURNS, text('%d', queue)
  local lines = call('ZRANGE', turns, text('%.0f', first), text('(%.0f', first + TURNS), 'BYSCORE', 'LIMIT', 0, most)
  local taken = 0
  for i = 1, #lines do
    local found = #live
    taken = taken + max(1, take(queue, lines[i], #lines == 1 and most or 1, live))
    -- One after the other, many stale hints would take many commands.
    if #live == found then taken = taken + drop_stale(READY, queue, STALE_TAKEN, lines[i]) end
    if not end_turn(number, lines[i]) and #lines > 1 then set_turn(number, lines[i]) end
  end
  return taken
end

-- Takes ready jobs by priority and turn, until `live` has `wanted` jobs or `limit` hints are taken. Returns whether more may be
-- ready although `live` has fewer.
local function take_by_turns(queue, wanted, limit, live)
  local number = text('%d', queue)
  local turns, of_queue = prefix .. 'turns:' .. number, prefix .. 'q:' .. number
  local taken = floor(tonumber(call('HGET', of_queue, 'taken')) or 0)
  -- The place in the round of the next job; the level from which the last job of a round was taken; the level of the job before.
  local place, lower, before = taken % ROUND, floor(taken / ROUND) % ROUND, floor(taken / ROUND / ROUND) % ROUND
  if call('EXISTS', prefix .. 'ready:' .. number) == 1 then set_turn(number, '', true) end
  local has_more = true
  while #live < wanted and limit > 0 do
    local first, last = call('ZRANGE', turns, 0, 0, 'WITHSCORES')[2], call('ZRANGE', turns, -1, -1, 'WITHSCORES')[2]
    has_more = first ~= nil
    if not has_more then break end
    local level, most, found = level_of(first), min(wanted - #live, limit), #live
    if level_of(last) > level or level > before then
      if place == ROUND - 1 then
        -- One behind the level of the job before: the first level may have had no place in this round.
        local behind = level_behind(turns, max(before, lower)) or level_behind(turns, before)
        level, lower, most = behind or level, behind or lower, 1
      else
        most = min(most, ROUND - 1 - place)
      end
    end
    limit = limit - take_of_level(queue, turns, level, most, live)
    if #live > found then place, before = (place + #live - found) % ROUND, level end
  end
  if #live > 0 then call('HSET', of_queue, 'taken', text('%d', place + ROUND * (lower + ROUND * before))) end
  return has_more and #live < wanted
end
