#!lua
-- finish_sizes: makes the pages that the holder of the claim has written the stored sizes of all queues.
-- KEYS[1] sizes    hash, as in claim_sizes
-- ARGV[1] prefix   unused
-- ARGV[2] now      ms; unused
-- ARGV[3] id       of the claim
-- ARGV[4] side     to which its pages were written
-- ARGV[5] pages    how many
-- ARGV[6] queues   how many there are: sizes of many are recent for longer; 0 = the queues of some buckets are missing
-- ARGV[7] kept     ms; how long the hash lives
-- Returns ok → 1 = they are the stored sizes; 0 = another process has claimed the collection, nothing changed
-- Changes: the stored sizes, which are as old as the claim; the claim ends; the pages of the sizes before are deleted
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include prelude

local sizes, id, side = KEYS[1], ARGV[3], ARGV[4]
local stored = call('HMGET', sizes, 'claim', 'claimed_at', 'side', 'pages')
if stored[1] ~= id then return { 'ok', 0 } end
if stored[3] and stored[3] ~= side then
  for page = 0, (tonumber(stored[4]) or 0) - 1 do call('HDEL', sizes, text('%s:%d', stored[3], page)) end
end
call('HSET', sizes, 'id', id, 'at', stored[2], 'side', side, 'pages', ARGV[5], 'queues', ARGV[6])
call('HDEL', sizes, 'claim', 'claimed_at')
call('PEXPIRE', sizes, ARGV[7])
return { 'ok', 1 }
