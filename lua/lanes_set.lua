#!lua flags=allow-oom
-- lanes_set: sets how many lanes of a queue take new jobs, and how many may hold jobs.
-- KEYS[1] lanes  hash: namespace/queue → open, used, epoch; field # = the last epoch
-- ARGV[1] prefix unused
-- ARGV[2] now    ms; unused
-- ARGV[3] name   namespace/queue
-- ARGV[4] open   lanes that take new jobs from now on, at least 1; '' = unchanged
-- ARGV[5] used   least number of lanes that may hold jobs
-- ARGV[6] above  the new epoch is larger than this one
-- Returns ok → open, used, epoch of the row
-- Changes: the row of the queue, and the last epoch
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include prelude

local lanes, name, open, above = KEYS[1], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[6])

local was_open, used, was_epoch = lane_row(lanes, name)
open = open or was_open
used = max(used, open, tonumber(ARGV[5]))
-- All rows share one sequence of epochs: a queue whose row was deleted never gets an earlier epoch again.
local epoch = max(above, was_epoch, tonumber(call('HGET', lanes, '#') or 0)) + 1
call('HSET', lanes, '#', text('%.0f', epoch))
keep_lane_row(lanes, name, open, used, epoch)
return { 'ok', open, used, epoch }
