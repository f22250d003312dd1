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
-- are in `held_for`.
local function hold(queue, lines, places, empty, group_limit)
  local number, held = text('%d', queue), {}
  for _, line in ipairs(lines) do
    if places[line] == 0 and not empty[line] then held[#held + 1] = line end
  end
  if #held == 0 then return end
  set_turns(number, HELD, held)
  call('HSET', prefix .. 'q:' .. number, 'held_for', text('%d', group_limit))
end

-- A line among these keys that is not held.
local function first_not_held(queue, lines)
  for line in pairs(lines) do
    local turn = call('ZSCORE', prefix .. 'turns:' .. text('%d', queue), line)
    if turn and tonumber(turn) < HELD then return line end
  end
end

-- Gives lines that were held for a lower limit their turns back, up to `most`. Returns how many.
local function give_all_back(queue, most)
  local number = text('%d', queue)
  local lines = call('ZRANGE', prefix .. 'turns:' .. number, text('%.0f', HELD), '+inf', 'BYSCORE', 'LIMIT', 0, min(most, VALUES_MAX))
  for _, line in ipairs(lines) do set_turns(number, first_turn(line), { line }) end
  if #lines < min(most, VALUES_MAX) then call('HDEL', prefix .. 'q:' .. number, 'held_for') end
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
