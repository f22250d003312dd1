#!lua flags=allow-oom
-- cold_mark: notes how far a bucket has come in the cold tier.
-- KEYS[1] lock       token of the pump that leads the bucket
-- ARGV[1] prefix     of the bucket's keys
-- ARGV[2] now        ms; '' = Redis's clock
-- ARGV[3] token      of the calling pump
-- ARGV[4] field      closed: no payload is frozen into this partition, or an earlier one, from now on; thawed: no job refers to
--   these partitions any more; '' = only look
-- ARGV[5] partition  its number
-- Returns ok → closed and thawed, -1 = none; the time, in ms
-- Returns lost → the caller does not lead the bucket; nothing changed
-- Changes: the field. Thawed is never more than closed: if that is lowered, jobs may refer to the partitions behind it again,
--   and all far hints are looked at again
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include prelude

local token, field = ARGV[3], ARGV[4]

if call('GET', KEYS[1]) ~= token then return { 'lost' } end

local cold = prefix .. 'cold'
local was = call('HMGET', cold, 'closed', 'thawed')
local closed, thawed = tonumber(was[1]) or -1, tonumber(was[2]) or -1

if field == 'closed' then
  local now_closed = tonumber(ARGV[5])
  if now_closed < closed then call('DEL', prefix .. 'cold_walk') end
  closed = now_closed
elseif field == 'thawed' then
  thawed = tonumber(ARGV[5])
end
thawed = min(thawed, closed)
if field ~= '' then call('HSET', cold, 'closed', text('%d', closed), 'thawed', text('%d', thawed)) end
return { 'ok', closed, thawed, now_ms }
