#!lua flags=allow-oom
-- lanes_settle: takes lanes of a queue out of use after they were closed in their buckets, and drops former numbers of lanes.
-- KEYS[1] lanes  hash: namespace/queue → open, used, epoch, numbers; field # = the last epoch
-- ARGV[1] prefix unused
-- ARGV[2] now    ms; unused
-- ARGV[3] name   namespace/queue
-- ARGV[4] open   of the row as the caller read it
-- ARGV[5] used   of that row
-- ARGV[6] epoch  of that row; the lanes were closed with it, after the row was read
-- ARGV[7] still  new value of used, at least open
-- ARGV[8] numbers of that row, by which keys are placed
-- ARGV[9] left   new value of numbers: those by which jobs may still be placed, the present one first
-- Returns ok → 1 = done; 0 = the row has changed since it was read, and is unchanged
-- Changes: used and numbers in the row of the queue; deletes the row if one lane is left
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include prelude

local lanes, name, still = KEYS[1], ARGV[3], tonumber(ARGV[7])

local open, used, epoch, numbers = lane_row(lanes, name)
if open ~= tonumber(ARGV[4]) or used ~= tonumber(ARGV[5]) or epoch ~= tonumber(ARGV[6]) or numbers ~= ARGV[8] then
  return { 'ok', 0 }
end
keep_lane_row(lanes, name, open, still, epoch, ARGV[9])
return { 'ok', 1 }
