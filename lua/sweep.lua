#!lua flags=allow-oom
-- sweep: deletes expired jobs, a bounded number of chunks per call.
-- KEYS[1] lock   token of the pump that leads the bucket
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] token  of the calling pump
-- ARGV[4] limit  most chunks that one call reads
-- ARGV[5] pause_ms least time between two reads of a chunk
-- Returns ok → number of jobs deleted, 1 if more chunks are due (call again) else 0, ms until the next is due or -1
-- Returns lost → the caller does not lead the bucket; nothing changed
-- Changes: deletes expired jobs; drops their hints at the head of ready lists; sets when each chunk is read next
-- Errors: those of scripts that write (prelude.lua)
-- Since layout 1

local token, limit, pause_ms = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

if call('GET', KEYS[1]) ~= token then return { 'lost' } end

local expiry = prefix .. 'expiry'
local swept, swept_ready = 0, {}

local function sweep_chunk(chunk)
  local records, next_ms = call('HGETALL', chunks .. chunk), nil
  for i = 1, #records, 2 do
    local job = unpack_header(chunk .. records[i], records[i + 1])
    if job and job.expires_ms > now_ms then
      next_ms = math.min(next_ms or job.expires_ms, job.expires_ms)
    elseif job and job.expires_ms > 0 then
      delete(job)
      swept = swept + 1
      if job.state == READY then swept_ready[job.queue] = (swept_ready[job.queue] or 0) + 1 end
    end
  end
  if next_ms then
    call('ZADD', expiry, math.max(next_ms, now_ms + pause_ms), chunk)
  else
    call('ZREM', expiry, chunk)
  end
end

for _, chunk in ipairs(call('ZRANGE', expiry, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, limit)) do
  sweep_chunk(chunk)
end
-- In a queue without consumers no other call would drop these hints.
for queue, hints in pairs(swept_ready) do drop_stale(READY, queue, hints) end
settle()

local head = call('ZRANGE', expiry, 0, 0, 'WITHSCORES')[2]
local wait_ms = head and math.max(0, head - now_ms) or -1
return { 'ok', swept, wait_ms == 0 and 1 or 0, wait_ms }
