#!lua flags=allow-oom
-- lanes_settle: has consumers leave lanes that are closed and were found empty.
-- KEYS[1] lanes    hash, namespace/queue → open, used, when a lane was closed last (ms)
-- ARGV[1] prefix   unused
-- ARGV[2] now      ms, '' = Redis's clock
-- ARGV[3] name     namespace/queue
-- ARGV[4] open     as it was when the lanes were looked at
-- ARGV[5] used     as it was
-- ARGV[6] still    lanes that may still hold jobs, at least open
-- ARGV[7] quiet_ms the last lane was closed at least so long ago: nobody takes it for open any more
-- Returns ok → 1 if it is so now; 0 if the counts have changed meanwhile, or a lane was closed just now
-- Since layout 1

local lanes, name, still, quiet_ms = KEYS[1], ARGV[3], tonumber(ARGV[6]), tonumber(ARGV[7])

local open, used, closed_ms = lane_counts(lanes, name)
if open ~= tonumber(ARGV[4]) or used ~= tonumber(ARGV[5]) then return { 'ok', 0 } end
if now_ms < closed_ms + quiet_ms then return { 'ok', 0 } end
keep_lane_counts(lanes, name, open, still, closed_ms)
return { 'ok', 1 }
