#!lua
-- publish_probe: does nothing; Redis refuses it whenever it refuses publish.
-- KEYS: none is read; the caller passes keys of the bucket for routing
-- ARGV[1] prefix unused
-- ARGV[2] now    ms; unused
-- Returns ok
-- Changes: nothing
-- Errors: those of scripts that write (prelude.lua), among them OOM at maxmemory
-- Since layout 2

-- It has the flags of publish. Redis refuses both at maxmemory (OOM), with too few replicas (NOREPLICAS), after a
-- failed write to disk (MISCONF) and on a replica (READONLY).
return { 'ok' }
