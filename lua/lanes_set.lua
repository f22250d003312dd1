#!lua flags=allow-oom
-- lanes_set: sets how many lanes of a queue take new jobs, and how many may hold jobs.
-- KEYS[1] lanes  hash: namespace/queue → open, used, epoch, numbers; field # = the last epoch
-- ARGV[1] prefix unused
-- ARGV[2] now    ms; unused
-- ARGV[3] name   namespace/queue
-- ARGV[4] open   lanes that take new jobs from now on, at least 1; '' = unchanged
-- ARGV[5] used   least number of lanes that may hold jobs
-- ARGV[6] above  the new epoch is larger than this one, which the caller has read
-- ARGV[7] lost   numbers of lanes by which keys may be placed beside those of the row, with commas; '' = none
-- ARGV[8] formers_max most former numbers that a row may have after `open` was set
-- Returns ok → open, used, epoch and numbers of the row
-- Returns unsettled → numbers of the row, which is unchanged: it would have more former ones, and `open` is none of them
-- Returns lost → the last epoch of the table, which is unchanged: `open` is given, and a failover has lost the epoch `above`
-- Changes: the row of the queue, and the last epoch
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include prelude

local lanes, name, open, above, LANES_MAX = KEYS[1], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[6]), 64

local last_epoch = tonumber(call('HGET', lanes, '#') or 0)
if open and above > last_epoch then return { 'lost', last_epoch } end
local was_open, used, was_epoch, was_numbers = lane_row(lanes, name)
local present, is_former, numbers = open or tonumber(string.match(was_numbers, '^%d+')), {}, {}
for number in string.gmatch(was_numbers .. ',' .. ARGV[7], '%d+') do is_former[tonumber(number)] = true end
local is_new = not is_former[present]
is_former[present] = nil
for number = 1, LANES_MAX do
  if is_former[number] then numbers[#numbers + 1] = text('%d', number) end
end
if open and is_new and #numbers > tonumber(ARGV[8]) then return { 'unsettled', was_numbers } end
table.insert(numbers, 1, text('%d', present))
numbers = table.concat(numbers, ',')
open = open or was_open
used = max(used, open, tonumber(ARGV[5]))
-- All rows share one sequence of epochs: a queue whose row was deleted never gets an earlier epoch again.
local epoch = max(above, was_epoch, last_epoch) + 1
call('HSET', lanes, '#', text('%.0f', epoch))
keep_lane_row(lanes, name, open, used, epoch, numbers)
return { 'ok', open, used, epoch, numbers }
