#!lua flags=no-writes,allow-oom
-- permissions: lists the commands that the user has no right to run.
-- KEYS: none
-- ARGV[1] prefix         unused
-- ARGV[2] now            ms; unused
-- ARGV[3] queues         any key of a bucket
-- ARGV[4] lanes          a key outside of all buckets
-- ARGV[5] bell           a channel of a bucket
-- ARGV[6] alarm          another one
-- ARGV[7] kind           'cluster' for a node of a cluster, else ''
-- Returns ok → an array of the commands that the user may not run with these keys or channels
-- Changes: nothing
-- Errors: the errors of every script (prelude.lua)
-- Since layout 2

local forbidden, told = {}, {}

local function need(command, ...)
  -- A server that does not know the command, or counts its arguments otherwise, raises an error.
  local asked, allowed = pcall(redis.acl_check_cmd, command, ...)
  if asked and not allowed and not told[command] then
    forbidden[#forbidden + 1] = command
    told[command] = true
  end
end

for _, key in ipairs({ ARGV[3], ARGV[4] }) do
  for _, command in ipairs({ 'DEL', 'EXISTS', 'GET', 'HGETALL', 'HKEYS', 'HLEN', 'LLEN', 'LPOP', 'MGET', 'PERSIST', 'STRLEN' }) do need(command, key) end
  for _, command in ipairs({ 'HDEL', 'HEXISTS', 'HGET', 'HMGET', 'HSCAN', 'INCRBY', 'LINDEX', 'LPUSH', 'PEXPIRE', 'RPUSH', 'SET',
    'ZMSCORE', 'ZRANK', 'ZREM', 'ZSCAN', 'ZSCORE' }) do
    need(command, key, '1')
  end
  for _, command in ipairs({ 'GETRANGE', 'HINCRBY', 'HSET', 'HSETNX', 'LRANGE', 'LREM', 'LSET', 'LTRIM', 'ZADD', 'ZCOUNT', 'ZRANGE', 'ZREMRANGEBYRANK',
    'ZREMRANGEBYSCORE' }) do
    need(command, key, '1', '1')
  end
  need('RENAME', key, key)
  need('HSCAN', key, '0')
end
for _, channel in ipairs({ ARGV[5], ARGV[6] }) do
  need('SPUBLISH', channel, '')
  need('SSUBSCRIBE', channel)
end
for _, command in ipairs({ 'TIME', 'PING', 'INFO' }) do need(command) end
need('SCRIPT', 'LOAD', '')
if ARGV[7] == 'cluster' then
  for _, command in ipairs({ 'INFO', 'SLOTS' }) do need('CLUSTER', command) end
  need('ASKING')
end
return { 'ok', forbidden }
