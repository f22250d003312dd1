#!lua
-- key_create: stores an API key, and its id among the keys of its namespace.
-- KEYS[1] keys   hash: id → the rest of the key
-- KEYS[2] listed hash: the ids of the keys of its namespace
-- ARGV[1] prefix unused
-- ARGV[2] now    ms; unused
-- ARGV[3] id     of the key
-- ARGV[4] key    the rest of it, as JSON
-- ARGV[5] most   how many keys the namespace may have
-- Returns ok → stored
-- Returns exists → there is a key with this id; nothing changed
-- Returns full → the namespace has as many keys as it may; nothing changed
-- Changes: the key, and the ids of its namespace
-- Errors: the errors of scripts that write (prelude.lua), among them OOM at maxmemory
-- Since layout 2
--- include prelude

local id, listed = ARGV[3], KEYS[2]

if call('HEXISTS', KEYS[1], id) == 1 then return { 'exists' } end
if call('HLEN', listed) >= tonumber(ARGV[5]) then return { 'full' } end
call('HSET', KEYS[1], id, ARGV[4])
call('HSET', listed, id, '')
return { 'ok' }
