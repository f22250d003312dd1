#!lua flags=no-writes
-- workers_list: returns workers of a namespace, in the order of their names, as processes know them.
-- KEYS[1] workers sorted set in the order of names: as in workers_set
-- ARGV[1] prefix unused
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] after  a name, or a name, \0 and a process: only entries behind it; '' = all
-- ARGV[4] limit  most entries that are returned
-- Returns ok → now_ms; then the entries, also entries that count no longer
-- Changes: nothing
-- Errors: the errors of every script (prelude.lua)
-- Since layout 2
--- include prelude

local from = ARGV[3] == '' and '-' or '(' .. ARGV[3] .. '\1'
return { 'ok', now_ms, unpack(call('ZRANGE', KEYS[1], from, '+', 'BYLEX', 'LIMIT', 0, ARGV[4])) }
