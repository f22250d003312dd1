#!lua flags=allow-oom
-- table_set: stores or removes an entry of a table (policies, relays, schedules), if its revision is as expected.
-- KEYS[1] table    hash: namespace/queue, namespace/relay or schedule → revision and value; field # = the last revision;
--                  field namespace/ = how many entries it has, in a table of several namespaces;
--                  field #<number> = tag and name of a change, for the last changes. A revision is "<number>.<tag>"
-- KEYS[2] reports  relays only: hash: namespace/relay → what a process reports of the relay (relays_report)
-- ARGV[1] prefix   unused
-- ARGV[2] now      ms; unused
-- ARGV[3] name     of the entry
-- ARGV[4] expected revision of the stored entry; '0' = there is none; '' = any
-- ARGV[5] tag      hexadecimal, random: after a failover two changes may have the same number
-- ARGV[6] value    text; '' = remove the entry
-- ARGV[7] listed   how many changes stay listed
-- ARGV[8] most     how many entries a namespace may have. A table with names of another form, without listed changes, is one namespace's
-- ARGV[9] full     1 = Redis is at maxmemory: a large value must not grow; 0 = it may
-- Returns ok → the new revision of the entry, '0' = there is none
-- Returns mismatch → the revision of the stored entry ('0' = none, '' = it cannot be read); nothing changed
-- Returns full → '0'; the namespace has as many entries as it may, and nothing changed
-- Changes: the entry, the last revision, the list of changes; with an entry that is removed, the report of it; removing what is not
--   there changes nothing
-- Errors: the errors of scripts that write (prelude.lua); OOM with `full`, if the value may not be stored; nothing changed
-- Since layout 1
--- include prelude

-- At maxmemory a queue can still be paused, and so can a schedule or relay, whose values are large.
local SMALL_BYTES, LONGER_BYTES = 256, 32

local entries, name, expected, tag, value = KEYS[1], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local entry = call('HGET', entries, name)
local revision = not entry and '0' or string.match(entry, '^(%d+%.%x+) ') or ''
if expected ~= '' and expected ~= revision then return { 'mismatch', revision } end
if value == '' and not entry then return { 'ok', '0' } end
local namespace = string.match(name, '^[^/]*/')
if not entry then
  local count = namespace and (call('HGET', entries, namespace) or 0) or call('HLEN', entries) - call('HEXISTS', entries, '#')
  if (tonumber(count) or 0) >= tonumber(ARGV[8]) then return { 'full', '0' } end
end
if ARGV[9] == '1' and #value > max(SMALL_BYTES, #(entry or '') + LONGER_BYTES) then
  return { err = 'OOM the value is too large for a server at maxmemory' }
end

-- One sequence for the whole table: a reader asks for the changes after the last change that it knows.
local number = (tonumber(string.match(call('HGET', entries, '#') or '', '^(%d+)%.')) or 0) + 1
revision = text('%.0f.%s', number, tag)
call('HSET', entries, '#', revision, text('#%.0f', number), tag .. ' ' .. name)
call('HDEL', entries, text('#%.0f', number - ARGV[7]))
if value == '' then
  call('HDEL', entries, name)
  if namespace and count(entries, namespace, -1) <= 0 then call('HDEL', entries, namespace) end
  if KEYS[2] then call('HDEL', KEYS[2], name) end
  return { 'ok', '0' }
end
call('HSET', entries, name, revision .. ' ' .. value)
if namespace and not entry then count(entries, namespace, 1) end
return { 'ok', revision }
