#!lua flags=allow-oom
-- lane_keys: returns the keys of a queue in one of its lanes, some in each call, by the index of keys.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] placement of the keys: the new floor of the lane, with which no key that is not returned comes later
-- ARGV[5] shard  of the index to begin with, 0 to 127
-- ARGV[6] cursor in this shard; '' = its beginning
-- ARGV[7] limit  most entries that one call reads, about
-- Returns ok → shard and cursor to continue with, 128 and '' = all were returned; the hashes of the keys, of 12 bytes each, in one
--   string
-- Returns stale → the floor of the lane, which refuses the placement; nothing changed
-- Changes: the floor
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include placements

local name, placement, shard, left, SHARDS = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[7]), 128
-- A cursor of HSCAN means nothing to another server, or after a restart: then the shard is read from its beginning.
local cursor, server = string.match(ARGV[6], '^(%d+) (%x+)$')
local function this_server() return string.match(call('INFO', 'server'), 'run_id:(%x+)') end
if not cursor or server ~= this_server() then cursor = '0' end

local known, floor_of_lane = unpack(call('HMGET', KEYS[1], name, '@' .. name))
if floor_of_lane and is_stale(placement, floor_of_lane) then return { 'stale', floor_of_lane } end
raise_floor(KEYS[1], name, placement, floor_of_lane)
local queue = tonumber(known)

local hashes = {}

-- Of these entries of the index, adds those of the queue.
local function add_hashes(entries)
  local numbers = {}
  for i = 2, #entries, 2 do numbers[#numbers + 1] = entries[i] end
  read_ahead(numbers)
  for i = 1, #entries, 2 do
    local job = read(entries[i + 1])
    if job and job[QUEUE] == queue and key_hash(job[RECORD], job[FLAGS]) == entries[i] then hashes[#hashes + 1] = entries[i] end
  end
end

while shard < SHARDS and left > 0 do
  local entries
  cursor, entries = unpack(call('HSCAN', prefix .. text('k:%d', shard), cursor, 'COUNT', left))
  if queue then add_hashes(entries) end
  left = left - 1 - #entries / 2
  if cursor == '0' then shard = shard + 1 end
end
local is_inside = cursor ~= '0'
return { 'ok', shard, is_inside and cursor .. ' ' .. this_server() or '', table.concat(hashes) }
