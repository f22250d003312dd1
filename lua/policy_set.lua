#!lua flags=allow-oom
-- policy_set: stores or removes the policy of a queue, if the stored one has the expected revision.
-- KEYS[1] policies hash: namespace/queue → revision and policy; field # = the last revision; field #<number> = tag and
--                  name of a change, for the last changes. A revision is "<number>.<tag>"
-- ARGV[1] prefix   unused
-- ARGV[2] now      ms; unused
-- ARGV[3] name     namespace/queue
-- ARGV[4] expected revision of the stored policy; '0' = no policy is stored; '' = any
-- ARGV[5] tag      hexadecimal, random: after a failover two changes may have the same number
-- ARGV[6] policy   its text; '' = remove the policy
-- ARGV[7] listed   how many changes stay listed
-- Returns ok → the new revision of the queue's policy, '0' = it has none
-- Returns mismatch → the revision of the stored policy ('0' = none, '' = it cannot be read); nothing changed
-- Changes: the policy of the queue, the last revision, the list of changes; removing what is not there changes nothing
-- Errors: those of scripts that write (prelude.lua)
-- Since layout 1

local policies, name, expected, tag, policy = KEYS[1], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local entry = call('HGET', policies, name)
local revision = not entry and '0' or string.match(entry, '^(%d+%.%x+) ') or ''
if expected ~= '' and expected ~= revision then return { 'mismatch', revision } end
if policy == '' and not entry then return { 'ok', '0' } end

-- One sequence for the whole table: a reader asks for the changes after the last one that it knows.
local number = (tonumber(string.match(call('HGET', policies, '#') or '', '^(%d+)%.')) or 0) + 1
revision = text('%.0f.%s', number, tag)
call('HSET', policies, '#', revision, text('#%.0f', number), tag .. ' ' .. name)
call('HDEL', policies, text('#%.0f', number - ARGV[7]))
if policy == '' then
  call('HDEL', policies, name)
  return { 'ok', '0' }
end
call('HSET', policies, name, revision .. ' ' .. policy)
return { 'ok', revision }
