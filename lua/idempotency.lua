-- idempotency: for scripts whose calls may be repeated.
--- include prelude

-- The hash that has the entries of idempotency keys. An entry is in the generation of its time, and is found in that and
-- the next one; also in the one before it, since the clock may have been set back over its begin.
local function entries_of(shard, generation)
  return prefix .. 'idem:' .. text('%d:%d', generation, shard)
end

-- Whether a shard has entries that are found.
local function has_entries(shard, window_ms)
  local now = floor(now_ms / window_ms)
  return call('EXISTS', entries_of(shard, now), entries_of(shard, now - 1), entries_of(shard, now + 1)) > 0
end

-- Number, creation time, nonce and hash of the request with this idempotency key; nil if there was none.
local function first_request(hash, window_ms)
  local generation, shard = floor(now_ms / window_ms), string.byte(hash) % 128
  for _, near in ipairs({ generation, generation - 1, generation + 1 }) do
    local entry = call('HGET', entries_of(shard, near), hash)
    if entry then return struct.unpack('>I6I6Hc8', entry) end
  end
end

local function remember(hash, window_ms, request, number, created_ms, nonce)
  local entries = entries_of(string.byte(hash) % 128, floor(now_ms / window_ms))
  call('HSET', entries, hash, struct.pack('>I6I6Hc8', number, created_ms, nonce, request))
  call('PEXPIRE', entries, text('%d', 2 * window_ms), 'NX')
end
