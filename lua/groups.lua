-- groups: for scripts that lease jobs of groups, or end leases. running:<q> has the number of leased jobs of each group that
-- has any. Lines of groups that have as many as they may are held: their turns are behind the turns of all other lines, from
-- HELD on, until a lease of the group ends.
--- include lines

-- How many more jobs of its group may be leased, for each of these lines.
local function places_of(queue, lines, group_limit)
  local groups, places = {}, {}
  for i, line in ipairs(lines) do groups[i] = string.match(line, '^:%d:(.+)$') or '' end
  local running, here = call('HMGET', prefix .. 'running:' .. text('%d', queue), unpack(groups)), changes_of(queue).groups or {}
  for i, group in ipairs(groups) do
    places[lines[i]] = group == '' and math.huge or max(0, group_limit - leased_in(running[i]) - (here[group] or 0))
  end
  return places
end

-- Holds the lines among these that have hints and no place left. A queue with lines that are held has the limit for which they
-- are in `held_for`. While lines that were held for a lower one get their turns back, it is that one, a space and the last of
-- their turns.
local function hold(queue, lines, places, empty, group_limit)
  local number, held = text('%d', queue), {}
  for _, line in ipairs(lines) do
    if places[line] == 0 and not empty[line] then held[#held + 1] = line end
  end
  if #held == 0 then return end
  set_turns(number, HELD, held)
  local of_queue = prefix .. 'q:' .. number
  if not string.find(call('HGET', of_queue, 'held_for') or '', ' ') then call('HSET', of_queue, 'held_for', text('%d', group_limit)) end
end

-- A line among these keys that is not held.
local function first_not_held(queue, lines)
  for line in pairs(lines) do
    local turn = call('ZSCORE', prefix .. 'turns:' .. text('%d', queue), line)
    if turn and tonumber(turn) < HELD then return line end
  end
end

-- Gives lines that were held for a lower limit, `held_for`, their turns back, up to `most`. Returns how many. Those that the
-- higher limit (nil = none) holds meanwhile are behind them.
local function give_all_back(queue, most, held_for, group_limit)
  local number = text('%d', queue)
  local turns, of_queue = prefix .. 'turns:' .. number, prefix .. 'q:' .. number
  local limit, last = string.match(held_for, '^(%d+) ?(%d*)$')
  if not last or last == '' then last = text('%.0f', tonumber(call('ZRANGE', turns, 0, 0, 'REV', 'WITHSCORES')[2] or 0)) end
  most = min(most, VALUES_MAX)
  local lines = call('ZRANGE', turns, text('%.0f', HELD), last, 'BYSCORE', 'LIMIT', 0, most)
  for _, line in ipairs(lines) do set_turns(number, first_turn(line), { line }) end
  if #lines == most then
    call('HSET', of_queue, 'held_for', (limit or '0') .. ' ' .. last)
  elseif group_limit and call('ZCOUNT', turns, text('%.0f', HELD), '+inf') > 0 then
    call('HSET', of_queue, 'held_for', text('%d', group_limit))
  else
    call('HDEL', of_queue, 'held_for')
  end
  return #lines
end

-- Counts leases of groups that have begun or ended. Where one has ended, lines of the group that are held have their turns
-- back. Returns whether any has.
local function settle_groups(number, groups)
  local running, turns, is_back = prefix .. 'running:' .. number, prefix .. 'turns:' .. number, false
  for group, change in pairs(groups) do
    if change ~= 0 and count(running, group, change) <= 0 then call('HDEL', running, group) end
    if change < 0 then
      local lines = {}
      for priority = 0, PRIORITY_MAX do lines[priority + 1] = text(':%d:%s', priority, group) end
      for i, score in ipairs(call('ZMSCORE', turns, unpack(lines))) do
        if score and tonumber(score) >= HELD then
          set_turns(number, first_turn(lines[i]), { lines[i] })
          is_back = true
        end
      end
    end
  end
  return is_back
end
