#!lua
-- publish_probe: does nothing, and is refused where publish is refused.
-- ARGV[1] prefix unused
-- ARGV[2] now    ms, unused
-- Returns ok
-- Since layout 1

-- It has the flags of publish: at maxmemory, with too few replicas, with a full disk or on a replica Redis does not begin it.
return { 'ok' }
