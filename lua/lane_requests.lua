#!lua flags=no-writes,allow-oom
-- lane_requests: returns whether a bucket knows idempotency keys, of any queue.
-- KEYS: none is read; the caller may pass keys of a bucket for routing
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] window of idempotency keys, ms
-- Returns ok → 1 = it does; 0 = a request that is repeated is not found here
-- Changes: nothing
-- Errors: the errors of every script (prelude.lua)
-- Since layout 2
--- include idempotency

for shard = 0, 127 do
  if has_entries(shard, tonumber(ARGV[3])) then return { 'ok', 1 } end
end
return { 'ok', 0 }
