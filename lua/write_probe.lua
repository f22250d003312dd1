#!lua flags=allow-oom
-- write_probe: does nothing; Redis refuses it whenever it refuses every write.
-- KEYS: none is read; the caller may pass keys of a bucket for routing
-- ARGV[1] prefix unused
-- ARGV[2] now    ms; unused
-- Returns ok
-- Changes: nothing
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2

-- Redis refuses it with too few replicas (NOREPLICAS), after a failed write to disk (MISCONF) and on a replica (READONLY).
-- Before a publish it is loaded without its flag: then Redis refuses it at maxmemory (OOM) as well, as it refuses publish.
return { 'ok' }
