-- placements: for scripts that find jobs by their keys, which a lane may have given away.
--- include records

-- A placement is the epoch of the queue's row in the table of lanes, and the numbers of lanes by which keys are placed, the
-- present one first: "18 8,1". Without a row it is the last epoch of the table: "18", and all keys are in the first lane. The
-- floor of a lane is the last placement with which it was asked for keys without storing new jobs: field
-- `@<namespace>/<queue>` of `queues`. It refuses earlier placements, whose keys may be in other lanes now. A failover may have
-- lost one of two placements with the same epoch; or a row, and another queue has got a later epoch since.
local function is_stale(placement, floor)
  local epoch, present = string.match(placement, '^(%d+) ?(%d*)')
  local floor_epoch, floor_present = string.match(floor or '', '^(%d+) (%d+)')
  if not floor_epoch then return false end
  epoch, floor_epoch = tonumber(epoch), tonumber(floor_epoch)
  if present == '' and floor_present ~= '1' then return true end
  return floor_epoch > epoch or floor_epoch == epoch and present ~= '' and floor_present ~= present
end

-- Makes a placement that is not stale the floor of a lane. Without a row no key has left the lane: it needs none.
local function raise_floor(queue_numbers, name, placement, floor)
  local epoch, has_row = string.match(placement, '^(%d+)( ?)')
  if has_row ~= '' and epoch ~= string.match(floor or '', '^%d+') then call('HSET', queue_numbers, '@' .. name, placement) end
end

-- The job of a queue that a client names, expired or not: by number, nonce and creation time, or by '', the hash of its key
-- and the placement; and the number of the queue. If the placement is stale: nil, nil, and the reply.
local function named(queue_numbers, name, number, nonce_or_hash, created_or_placement)
  if number ~= '' then
    local queue = tonumber(call('HGET', queue_numbers, name))
    return stored(queue, number, nonce_or_hash, created_or_placement), queue
  end
  local known, floor = unpack(call('HMGET', queue_numbers, name, '@' .. name))
  if floor and rarely().is_stale(created_or_placement, floor) then return nil, nil, { 'stale', floor } end
  local queue = tonumber(known)
  return keyed(queue, nonce_or_hash), queue
end
