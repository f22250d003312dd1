#!lua flags=allow-oom
-- audit_counts: corrects the number of jobs of a queue by how much it is known to be wrong.
-- KEYS[1] queue     hash of the queue
-- ARGV[1] prefix    of the bucket's keys
-- ARGV[2] now       unused
-- ARGV[3] number    of the queue
-- ARGV[4] corrected how often its counts had been corrected when they were compared
-- ARGV[5] delayed   what is to be added to this count
-- ARGV[6] ready     the same
-- ARGV[7] leased    the same
-- ARGV[8] dead      the same
-- Returns mended → the counts are right
-- Returns sound → the queue was forgotten, or somebody else has corrected its counts; nothing changed
-- Since layout 1
-- Invariant: verbs change counts and records together, so what a count is wrong by does not change with time.

local number, corrected, first_state = tonumber(ARGV[3]), ARGV[4], 5

if call('HEXISTS', KEYS[1], 'name') == 0 or (call('HGET', KEYS[1], 'corrected') or '0') ~= corrected then
  return { 'sound' }
end
local changes = changes_of(number)
for state = DELAYED, DEAD do changes[state] = tonumber(ARGV[first_state + state - 1]) end
settle()
call('HINCRBY', KEYS[1], 'corrected', 1)
return { 'mended' }
