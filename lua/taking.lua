-- taking: for reserve: takes jobs from the lines of a queue.
--- include lines, groups

-- Of this many jobs that are taken, the last one has a lower priority, if there are jobs of one.
local ROUND = 8

-- Until jobs of the cold tier are due again that are not to be leased now; nil = they are leased.
local cold_ms

-- Makes a ready job due later, since its payload cannot be read now.
local function postpone_cold(job, delay_ms)
  schedule(job, from_ms + delay_ms)
  rewrite(job)
end

-- Adds the job of a hint to `live` if it may be leased. A second hint of the job is stale from then on. Without `line`
-- the queue has only one line.
local function take_hint(number, queue, line, live)
  local job = hinted(number, READY, queue, line)
  if not job then return end
  if expired(job) then return rarely().delete(job) end
  if cold_ms and has(job, COLD) then return rarely().postpone_cold(job, cold_ms) end
  job[STATE] = LEASED
  if has(job, GROUPED) then rarely().count_run(job, 1) end
  live[#live + 1] = job
end

-- Takes up to `most` hints from the head of the only line of a queue. Returns how many.
local function take_of_only_line(queue, most, live)
  local numbers = call('LPOP', prefix .. 'ready:' .. text('%d', queue), most)
  if not numbers then return 0 end
  read_ahead(numbers)
  for i = 1, #numbers do take_hint(numbers[i], queue, nil, live) end
  return #numbers
end

-- Takes hints of each of these lines, up to `share` and to its places, one of each line in turn. Returns how many, and the
-- lines of which a job was taken.
local function take_in_turn(queue, lines, share, places, live)
  local popped, numbers, served = {}, {}, {}
  for i, line in ipairs(lines) do
    local most = places and min(share, places[line]) or share
    popped[i] = most > 0 and call('LPOP', prefix .. 'ready:' .. text('%d', queue) .. line, most) or {}
    for _, number in ipairs(popped[i]) do numbers[#numbers + 1] = number end
  end
  read_ahead(numbers)
  for place = 1, share do
    for i, line in ipairs(lines) do
      local before = #live
      if popped[i][place] then take_hint(popped[i][place], queue, line, live) end
      if #live > before then
        served[line] = true
        if places then places[line] = places[line] - 1 end
      end
    end
  end
  return #numbers, served
end

-- Which of these lines have no hints.
local function empty_ones(queue, lines)
  local keys, empty = {}, {}
  for i, line in ipairs(lines) do keys[i] = prefix .. 'ready:' .. queue .. line end
  local exist = call('EXISTS', unpack(keys))
  for i, line in ipairs(lines) do
    if exist == 0 or exist < #lines and call('EXISTS', keys[i]) == 0 then empty[line] = true end
  end
  return empty
end

-- Most stale hints that are dropped together.
local STALE_TAKEN = 100

-- Takes up to `most` hints of lines of one level, at most one line for each, and stale hints behind them. If others of the
-- level are left, the lines of which a job was taken have their turns behind these. Returns how many.
local function take_of_level(queue, lines, most, has_others, group_limit, live)
  local number, share = text('%d', queue), max(1, floor(most / #lines))
  local places = group_limit and rarely().places_of(queue, lines, group_limit)
  local taken, served = take_in_turn(queue, lines, share, places, live)
  for _, line in ipairs(lines) do
    -- One after the other, many stale hints would take many commands.
    if not served[line] and not (places and places[line] == 0) then
      taken = taken + drop_stale(READY, queue, STALE_TAKEN, line)
    end
  end
  local empty, ended, again = empty_ones(number, lines), {}, {}
  if places then rarely().hold(queue, lines, places, empty, group_limit) end
  for _, line in ipairs(lines) do
    if empty[line] then
      ended[#ended + 1] = line
    elseif not (places and places[line] == 0) then
      if served[line] then again[#again + 1] = line else has_others = true end
    end
  end
  if #ended > 0 then call('ZREM', prefix .. 'turns:' .. number, unpack(ended)) end
  if has_others and #again > 0 then set_turns(number, first_turn(again[1]), again) end
  return max(taken, #lines)
end

-- The lines that are not held and have the next turns from this level on, up to `most`, with their scores; and the level of
-- the last such line.
local function lines_from(turns, level, most)
  local found = call('ZRANGE', turns, text('%.0f', level * TURNS), text('(%.0f', HELD), 'BYSCORE', 'LIMIT', 0, most + 1, 'WITHSCORES')
  local last = found[#found]
  if #found > 2 * most then
    last = call('ZRANGE', turns, text('(%.0f', HELD), '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  end
  return found, last and level_of(last)
end

-- The lines of the first level among these, up to `most`; and whether that level has others.
local function lines_of_first(found, most)
  local level, lines = level_of(found[2]), {}
  for i = 1, #found, 2 do
    if level_of(found[i + 1]) > level then return lines, false end
    if #lines == most then return lines, true end
    lines[#lines + 1] = found[i]
  end
  return lines, false
end

-- Takes ready jobs by priority and turn, until `live` has `wanted` jobs or `limit` hints are taken. A group may have `group_limit`
-- leased jobs (nil = any number). Returns whether more may be ready although `live` has fewer.
local function take_by_turns(queue, wanted, limit, group_limit, live)
  local number = text('%d', queue)
  local turns, of_queue = prefix .. 'turns:' .. number, prefix .. 'q:' .. number
  local known = call('HMGET', of_queue, 'taken', 'held_for')
  if rarely().is_held_for_less(known[2], group_limit) then
    -- Half of the limit, so that each call takes jobs.
    limit = limit - rarely().give_all_back(queue, math.ceil(limit / 2), known[2], group_limit)
  end
  local round = floor(tonumber(known[1]) or 0)
  -- The place in the round of the next job; the level from which the last job of a round was taken; the level of the job before.
  local place, lower, before = round % ROUND, floor(round / ROUND) % ROUND, floor(round / ROUND / ROUND) % ROUND
  if not call('ZSCORE', turns, '') and call('EXISTS', prefix .. 'ready:' .. number) == 1 then set_turns(number, first_turn(''), { '' }, true) end
  local has_more = true
  while #live < wanted and limit > 0 do
    local most, before_these = min(wanted - #live, limit), #live
    local found, last = lines_from(turns, 0, most)
    local lower_now = lower
    has_more = last ~= nil
    if not has_more then break end
    local level = level_of(found[2])
    if last > level or level > before then
      if place == ROUND - 1 then
        -- One behind the level of the job before: the first level may have had no place in this round.
        local behind = max(before, lower) < last and max(before, lower) + 1 or before < last and before + 1
        if behind and behind > level then found = lines_from(turns, behind, 1) end
        level = level_of(found[2])
        lower_now, most = behind and level or lower, 1
      else
        most = min(most, ROUND - 1 - place)
      end
    end
    local lines, has_others = lines_of_first(found, most)
    limit = limit - take_of_level(queue, lines, most, has_others, group_limit, live)
    if #live > before_these then
      place, lower, before = (place + #live - before_these) % ROUND, lower_now, level
    end
  end
  if #live > 0 then call('HSET', of_queue, 'taken', text('%d', place + ROUND * (lower + ROUND * before))) end
  return has_more and #live < wanted
end
