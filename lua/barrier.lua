#!lua flags=allow-oom
-- barrier: a write that leaves nothing behind, so that replicas and disks that have it have all writes before it.
-- KEYS[1] barrier a key that never exists between two calls
-- Returns ok → the write is on its way to replicas and append-only file
-- Since layout 1

redis.call('SET', KEYS[1], '')
redis.call('DEL', KEYS[1])
return { 'ok' }
