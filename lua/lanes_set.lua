#!lua flags=allow-oom
-- lanes_set: says how many lanes of a queue take new jobs.
-- KEYS[1] lanes  hash, namespace/queue → open, used, when a lane was closed last (ms)
-- ARGV[1] prefix unused
-- ARGV[2] now    ms, '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] open   lanes that take new jobs from now on, at least 1
-- Returns ok → open, used: lanes that may hold jobs
-- Since layout 1

local lanes, name, open = KEYS[1], ARGV[3], tonumber(ARGV[4])

local was_open, used, closed_ms = lane_counts(lanes, name)
if open < was_open then closed_ms = now_ms end
used = max(used, open)
keep_lane_counts(lanes, name, open, used, closed_ms)
return { 'ok', open, used }
