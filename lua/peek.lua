#!lua flags=allow-oom
-- peek: returns a job without leasing it.
-- KEYS[1] queues hash: namespace/queue → queue number
-- ARGV[1] prefix of the bucket's keys
-- ARGV[2] now    ms; '' = Redis's clock
-- ARGV[3] name   namespace/queue
-- ARGV[4] which  ready = the oldest of the highest priority; dead = the oldest dead job; job = the job with this number or key
-- ARGV[5] number of the job, '' = it is named by its key; with ready and dead: most hints that one call drops from the list
-- ARGV[6] nonce  of the job, the hash of its key; with ready and dead: ''
-- ARGV[7] created of the job, in ms, the placement of its key; with ready and dead: ''
-- ARGV[8] carry  largest body, in bytes, that is returned with its header; of a larger one only the header is returned
-- Returns ok → now_ms, number and record of the job
-- Returns none → there is no such job
-- Returns again → the limit of dropped hints was reached: call again
-- Returns stale → the floor of the lane, which refuses the placement
-- Changes: with job nothing; otherwise drops stale hints and deletes expired jobs at the head of the list
-- Errors: the errors of scripts that write (prelude.lua)
-- Since layout 2
--- include placements, lines, settle

local name, which, number, nonce, created_ms = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local carry = tonumber(ARGV[8])

local function shown(job)
  return { 'ok', now_ms, tonumber(job[NUMBER]), whole(job, carry) }
end

local function oldest(known, queue, state, stale_left)
  local list, has_turns = prefix .. STATES[state] .. ':' .. queue, state == READY and has_lines(known)
  while stale_left > 0 do
    local line = has_turns and rarely().next_line(queue)
    local of_line = list .. (line or '')
    local head = call('LINDEX', of_line, 0)
    if not head and not line then return { 'none' } end
    local job = head and hinted(head, state, queue, line)
    if job then
      if not expired(job) then return shown(job) end
      delete(job)
    end
    call('LPOP', of_line)
    if line then rarely().end_turn(text('%d', queue), line) end
    stale_left = stale_left - 1
  end
  return { 'again' }
end

if which == 'job' then
  local job, _, stale = named(KEYS[1], name, number, nonce, created_ms)
  if stale then return stale end
  return job and not expired(job) and shown(job) or { 'none' }
end
local known = call('HGET', KEYS[1], name)
local queue = tonumber(known)
if not queue then return { 'none' } end
local reply = oldest(known, queue, which == 'ready' and READY or DEAD, tonumber(number))
settle()
return reply
