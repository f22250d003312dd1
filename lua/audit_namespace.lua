#!lua flags=allow-oom
-- audit_namespace: corrects how many names of a namespace a hash counts, unless names were added or removed since they were read.
-- KEYS[1] table   hash: namespace/name → its entry; field # = a value that changes with each name that is added;
--                 field namespace/ = how many names of the namespace have an entry
-- ARGV[1] prefix  unused
-- ARGV[2] now     ms; unused
-- ARGV[3] field   with the count of the namespace
-- ARGV[4] last    field # as the caller read it; '' = none
-- ARGV[5] counted the count as it was read; '' = none
-- ARGV[6] names   how many names the namespace has
-- Returns repaired → the count is corrected
-- Returns sound → nothing changed: names were added or removed
-- Changes: the count
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
-- Invariant: scripts change the count together with the names. So where no name was added and the count stayed, none was removed.
--- include prelude

local stored, field, last, counted, names = KEYS[1], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local now = call('HMGET', stored, '#', field)
if (now[1] or '') ~= last or (now[2] or '') ~= counted then return { 'sound' } end
if names == '0' then call('HDEL', stored, field) else call('HSET', stored, field, names) end
return { 'repaired' }
