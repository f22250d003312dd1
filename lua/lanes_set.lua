#!lua flags=allow-oom
-- lanes_set: sets how many lanes of a queue take new jobs, and how many may hold some.
-- KEYS[1] lanes  hash, namespace/queue → open, used, epoch; field # = the last epoch
-- ARGV[1] prefix unused
-- ARGV[2] now    ms, unused
-- ARGV[3] name   namespace/queue
-- ARGV[4] open   lanes that take new jobs from now on, at least 1; '' = unchanged
-- ARGV[5] used   lanes that may hold jobs, at least
-- ARGV[6] above  the row gets a later epoch than this one
-- Returns ok → open, used, epoch
-- Since layout 1

local lanes, name, open, above = KEYS[1], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[6])

local was_open, used, was_epoch = lane_row(lanes, name)
open = open or was_open
used = max(used, open, tonumber(ARGV[5]))
-- Epochs are those of the whole table: a queue that was not in it for a while does not get an earlier one again.
local epoch = max(above, was_epoch, tonumber(call('HGET', lanes, '#') or 0)) + 1
call('HSET', lanes, '#', text('%.0f', epoch))
keep_lane_row(lanes, name, open, used, epoch)
return { 'ok', open, used, epoch }
