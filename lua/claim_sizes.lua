#!lua
-- claim_sizes: returns which sizes of all queues are stored if they are recent; if not, lets one caller collect them.
-- KEYS[1] sizes    hash: id, at, side, pages, queues = the stored sizes, queues as in finish_sizes; claim, claimed_at = who collects, since when;
--                  <side>:<page> = their pages, side a or b
-- ARGV[1] prefix   unused
-- ARGV[2] now      ms; '' = Redis's clock
-- ARGV[3] id       of the caller, should it collect; unique
-- ARGV[4] refresh  ms; sizes are recent for this long
-- ARGV[5] pause    ms; and for this long for each 1,000 queues
-- ARGV[6] lease    ms; how long a caller may take to collect
-- ARGV[7] kept     ms; how long the hash lives after a claim
-- ARGV[8] damaged  id of sizes that the caller could not read, so they are not recent; '' = none
-- Returns recent → id, side, number of pages, age in ms
-- Returns claimed → the side to which the caller writes: not the side of the stored sizes
-- Returns busy; another caller collects
-- Changes: with claimed: the claim, and the time to live
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include prelude

local sizes, id = KEYS[1], ARGV[3]
local stored = call('HMGET', sizes, 'id', 'at', 'side', 'pages', 'queues', 'claim', 'claimed_at')
local age_ms = now_ms - (tonumber(stored[2]) or 0)
local pages, queues = tonumber(stored[4]), tonumber(stored[5]) or 0
if stored[1] and pages and stored[1] ~= ARGV[8] and age_ms >= 0
  and age_ms < max(tonumber(ARGV[4]), floor(queues / 1000) * ARGV[5]) then
  return { 'recent', stored[1], stored[3] or '', pages, age_ms }
end
-- A clock that was set back must not make a claim last.
local claimed_ms = now_ms - (tonumber(stored[7]) or 0)
if stored[6] and claimed_ms >= 0 and claimed_ms < tonumber(ARGV[6]) then return { 'busy' } end
call('HSET', sizes, 'claim', id, 'claimed_at', text('%.0f', now_ms))
call('PEXPIRE', sizes, ARGV[7])
return { 'claimed', stored[3] == 'a' and 'b' or 'a' }
