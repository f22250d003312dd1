#!lua flags=no-writes,allow-oom
-- permissions: tells which commands the user lacks a right for.
-- KEYS[1] queues         any key of a bucket
-- ARGV[1] prefix         unused
-- ARGV[2] now            ms, unused
-- ARGV[3] roster         a key outside of all buckets
-- ARGV[4] bell           a channel of a bucket
-- ARGV[5] roster_channel a channel outside of all buckets
-- Returns ok → the commands that are forbidden, with these keys or channels
-- Since layout 1

local forbidden = {}

local function need(command, ...)
  -- A server that does not know the command, or counts its arguments otherwise, raises an error.
  local asked, allowed = pcall(redis.acl_check_cmd, command, ...)
  if asked and not allowed then forbidden[#forbidden + 1] = command end
end

for _, key in ipairs({ KEYS[1], ARGV[3] }) do
  for _, command in ipairs({ 'DEL', 'EXISTS', 'GET', 'HGETALL', 'LPOP', 'PERSIST', 'STRLEN' }) do need(command, key) end
  for _, command in ipairs({ 'HDEL', 'HEXISTS', 'HGET', 'HMGET', 'INCRBY', 'LINDEX', 'LPUSH', 'PEXPIRE', 'RPUSH', 'SET',
    'ZREM' }) do
    need(command, key, '1')
  end
  for _, command in ipairs({ 'HINCRBY', 'HSET', 'HSETNX', 'LRANGE', 'ZADD', 'ZRANGE', 'ZREMRANGEBYRANK',
    'ZREMRANGEBYSCORE' }) do
    need(command, key, '1', '1')
  end
  need('RENAME', key, key)
end
for _, channel in ipairs({ ARGV[4], ARGV[5] }) do
  need('PUBLISH', channel, '')
  need('SUBSCRIBE', channel)
end
for _, command in ipairs({ 'TIME', 'PING', 'INFO' }) do need(command) end
need('SCRIPT', 'LOAD', '')
return { 'ok', forbidden }
