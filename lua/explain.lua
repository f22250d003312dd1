#!lua flags=no-writes
-- explain: returns a job, and the facts that decide when it is delivered.
-- KEYS[1] queues  hash: namespace/queue → queue number
-- ARGV[1] prefix  of the bucket's keys
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] name    namespace/queue
-- ARGV[4] number  of the job; '' = it is named by its key
-- ARGV[5] nonce   of the job; the hash of its key
-- ARGV[6] created of the job, in ms; the placement of its key
-- ARGV[7] carry   largest body, in bytes, that is returned with its header; of a larger one only the header is returned
-- ARGV[8] at      index in the line of a ready job from which hints are read to count the jobs before it
-- ARGV[9] most    most hints that are read
-- Returns ok → now_ms, number and record of the job; the length of its body, -1 = its payload is in the record; for a ready
--   job 1 if its hint was read else 0, the number of live jobs whose hints were read before it, and the number of jobs
--   with a higher priority, for others 1, 0 and 0; jobs of the queue in this bucket that are ready; that are leased; 1 if
--   consumers wait for the queue else 0; the token of the pump that leads the bucket, '' = none; of a ready job how many
--   other lines of its priority have turns, else 0; how many jobs of its group are leased, -1 = it has none
-- Returns none → there is no such job
-- Returns stale → the floor of the lane, which refuses the placement; nothing changed
-- Changes: nothing
-- Errors: the errors of every script (prelude.lua)
-- Since layout 2
--- include lines, waiting, placements

local name, carry, at, most = ARGV[3], tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local job, queue, stale = named(KEYS[1], name, ARGV[4], ARGV[5], ARGV[6])
if stale then return stale end
if not job or expired(job) then return { 'none' } end

local list = prefix .. 'ready:' .. queue

local function jobs_before()
  if job[STATE] ~= READY then return 1, 0 end
  local line = line_of(job[FLAGS], job[RECORD])
  local before, numbers = 0, call('LRANGE', list .. line, at, at + most - 1)
  read_ahead(numbers)
  for _, number in ipairs(numbers) do
    if number == job[NUMBER] then return 1, before end
    local other = hinted(number, READY, queue, line)
    if other and not expired(other) then before = before + 1 end
  end
  return 0, before
end

-- Lines whose live jobs are counted.
local LINES_READ = 16

-- Live jobs of each of the first lines are counted among its first hints; all hints behind them count.
local function jobs_of_higher_priority()
  local jobs_ahead = 0
  if job[STATE] ~= READY then return jobs_ahead end
  local own = text('(%.0f', first_turn(line_of(job[FLAGS], job[RECORD])))
  for i, line in ipairs(call('ZRANGE', prefix .. 'turns:' .. queue, '-inf', own, 'BYSCORE', 'LIMIT', 0, most)) do
    local numbers = i <= LINES_READ and call('LRANGE', list .. line, 0, most - 1) or {}
    read_ahead(numbers)
    for _, number in ipairs(numbers) do
      local other = hinted(number, READY, queue, line)
      if other and not expired(other) then jobs_ahead = jobs_ahead + 1 end
    end
    jobs_ahead = jobs_ahead + max(0, call('LLEN', list .. line) - (i <= LINES_READ and most or 0))
  end
  return jobs_ahead
end

-- A line without a turn is the first one, or held.
local function other_lines()
  if job[STATE] ~= READY then return 0 end
  local line, turns = line_of(job[FLAGS], job[RECORD]), prefix .. 'turns:' .. queue
  local first, turn = first_turn(line), call('ZSCORE', turns, line)
  local lines = call('ZCOUNT', turns, text('%.0f', first), text('(%.0f', first + TURNS))
  return turn and tonumber(turn) < HELD and lines - 1 or lines
end

local group = group_of(job[FLAGS], job[RECORD])
local running = group and leased_in(call('HGET', prefix .. 'running:' .. queue, group)) or -1
local is_found, before = jobs_before()
local counts = call('HMGET', prefix .. 'q:' .. queue, STATES[READY], STATES[LEASED])
local body_bytes = has(job, BODY_OUTSIDE) and not has(job, COLD) and call('STRLEN', prefix .. 'body:' .. job[NUMBER]) or -1
return { 'ok', now_ms, tonumber(job[NUMBER]), whole(job, carry), body_bytes, is_found, before,
  jobs_of_higher_priority(), tonumber(counts[1]) or 0, tonumber(counts[2]) or 0, is_waited_for(name) and 1 or 0, call('GET', prefix .. 'lock') or '',
  other_lines(), running }
