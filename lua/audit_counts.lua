#!lua flags=allow-oom
-- audit_counts: corrects the counts of a queue by given differences.
-- KEYS[1] queue     hash of the queue
-- ARGV[1] prefix    of the bucket's keys
-- ARGV[2] now       ms; '' = Redis's clock
-- ARGV[3] number    of the queue
-- ARGV[4] corrected value of this field when the caller compared the counts
-- ARGV[5] delayed   difference to add to this count
-- ARGV[6] ready     the same
-- ARGV[7] leased    the same
-- ARGV[8] dead      the same
-- ARGV[9] done      the same
-- ARGV[10…] group and difference to the number of its leased jobs, of each group whose number is wrong
-- Returns repaired → the counts are corrected
-- Returns sound → nothing changed: the queue was forgotten, or its counts were corrected by another audit
-- Changes: counts and corrected of the queue; drops stale hints of a state whose count falls to 0; gives lines of groups
--   with fewer leased jobs their turns back
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
-- Invariant: scripts change counts and records together, so the difference between them is constant in time.
--- include changes, transitions, settle

local number, corrected, first_state = tonumber(ARGV[3]), ARGV[4], 5

if call('HEXISTS', KEYS[1], 'name') == 0 or (call('HGET', KEYS[1], 'corrected') or '0') ~= corrected then
  return { 'sound' }
end
local changes = changes_of(number)
for i = 10, #ARGV, 2 do
  changes.groups = changes.groups or {}
  changes.groups[ARGV[i]] = tonumber(ARGV[i + 1])
end
for state = DELAYED, DONE do changes[state] = tonumber(ARGV[first_state + state - 1]) end
settle()
call('HINCRBY', KEYS[1], 'corrected', 1)
return { 'repaired' }
