#!lua flags=allow-oom
-- lanes_cover: has consumers serve lanes that jobs came to when they were closed already.
-- KEYS[1] lanes  hash, namespace/queue → open, used, when a lane was closed last (ms)
-- ARGV[1] prefix unused
-- ARGV[2] now    ms, '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] used   lanes that may hold jobs, at least
-- Returns ok → open, used
-- Since layout 1

local lanes, name = KEYS[1], ARGV[3]

local open, used, closed_ms = lane_counts(lanes, name)
used = max(used, tonumber(ARGV[4]))
-- Whoever is looking whether the closed lanes are empty has to look again.
if used > open then closed_ms = now_ms end
keep_lane_counts(lanes, name, open, used, closed_ms)
return { 'ok', open, used }
