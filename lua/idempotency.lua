-- idempotency: for scripts whose calls may be repeated.
--- include prelude

-- The hash that has the entries of idempotency keys. An entry is in the generation of its time, and is found in that and
-- the next one; also in the one before it, since the clock may have been set back over its begin.
local function entries_of(hash, generation)
  return prefix .. 'idem:' .. text('%d:%d', generation, string.byte(hash) % 128)
end

-- Number, creation time, nonce and hash of the request with this idempotency key; nil if there was none.
local function first_request(hash, window_ms)
  local generation = floor(now_ms / window_ms)
  for _, near in ipairs({ generation, generation - 1, generation + 1 }) do
    local entry = call('HGET', entries_of(hash, near), hash)
    if entry then return struct.unpack('>I6I6Hc8', entry) end
  end
end

local function remember(hash, window_ms, request, number, created_ms, nonce)
  local entries = entries_of(hash, floor(now_ms / window_ms))
  call('HSET', entries, hash, struct.pack('>I6I6Hc8', number, created_ms, nonce, request))
  call('PEXPIRE', entries, text('%d', 2 * window_ms), 'NX')
end
