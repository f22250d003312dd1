#!lua flags=allow-oom
-- lanes_settle: takes lanes of a queue out of use that are closed in their buckets.
-- KEYS[1] lanes  hash, namespace/queue → open, used, epoch; field # = the last epoch
-- ARGV[1] prefix unused
-- ARGV[2] now    ms, unused
-- ARGV[3] name   namespace/queue
-- ARGV[4] open   as it was when the row was read
-- ARGV[5] used   as it was
-- ARGV[6] epoch  as it was; the lanes were closed with this epoch after that
-- ARGV[7] still  lanes that may still hold jobs, at least open
-- Returns ok → 1 if only these are in use now; 0 if the row is another one than it was, and has not been changed
-- Since layout 1

local lanes, name, still = KEYS[1], ARGV[3], tonumber(ARGV[7])

local open, used, epoch = lane_row(lanes, name)
if open ~= tonumber(ARGV[4]) or used ~= tonumber(ARGV[5]) or epoch ~= tonumber(ARGV[6]) then return { 'ok', 0 } end
keep_lane_row(lanes, name, open, still, epoch)
return { 'ok', 1 }
