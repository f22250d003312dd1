-- prelude: included by all scripts. docs/redis-layout.md describes the keys. Every script but barrier gets ARGV[1]
-- prefix, with which every key of the bucket begins, and ARGV[2] now, in ms ('' = Redis's clock; tests pass an explicit
-- time). A line `--- include records, waiting` gives a script the functions of these files. Since Redis runs the whole
-- text at each call, and each definition costs time, three rules make the text shorter (`cargo xtask lua NAME` prints
-- it). Blank lines separate blocks, of which a script gets only the blocks that it uses. Names in capitals are
-- constants, and their values stand in their places. A function that is called as rarely().name() is defined by the
-- first such call. Job numbers are strings throughout, as Redis returns them and as key names need them. All other
-- numbers are numbers. A queue that does not exist in the bucket has no number; neither has a queue whose lane is
-- closed there (tonumber = nil).
-- Returns, in every script: an array. Its first element names the outcome (ok, gone, …), values follow.
-- Errors of every script, which is then not executed: NOSCRIPT (load it and call again), LOADING, BUSY; on a cluster
--   MOVED, ASK, TRYAGAIN, CLUSTERDOWN. Of every script that writes: READONLY, MISCONF, NOREPLICAS, and OOM without the
--   flag allow-oom; it is not executed either. NOPERM and WRONGTYPE (a key has another type than in
--   docs/redis-layout.md) may end a script in the middle: its writes until then stay.

local call, text, sub, floor = redis.call, string.format, string.sub, math.floor
local min, max = math.min, math.max

local prefix = ARGV[1]
local now_us
if ARGV[2] == '' then
  local time = call('TIME')
  now_us = time[1] * 1000000 + time[2]
else
  now_us = ARGV[2] * 1000
end
local now_ms = floor(now_us / 1000)
-- Durations count from the end of the current millisecond: rounded down, they would end up to 1 ms early.
local from_ms = ARGV[2] == '' and now_ms + 1 or now_ms

local DELAYED, READY, LEASED, DEAD, DONE = 1, 2, 3, 4, 5

local STATES = { 'delayed', 'ready', 'leased', 'dead', 'done' }

-- Flags that never change: an extension follows the header; the job counts failures and losses, not tries; no number of
-- losses makes it dead; the extension has a group.
local EXTENDED, COUNTS_FAILURES, LOSSES_UNLIMITED, GROUPED = 8, 16, 32, 64
-- The payload is in the cold tier: a reference is in its place. Such a job has BODY_OUTSIDE too.
local COLD = 128

-- Width of a partition of the cold tier.
local PARTITION_MS = 1048576

-- Flags that scripts change: the payload is in body:<n>; its producer wants the job cancelled while it is leased; a
-- version waits in next:<n> for the end of the lease; log:<n> has failures; a client waits for the end of the job.
local BODY_OUTSIDE, CANCEL_REQUESTED, NEXT_WAITS, LOGGED, AWAITED = 256, 4096, 8192, 16384, 32768
-- Three bits of the flags, which scripts change too, are the priority; 4 is the highest.
local PRIORITY, PRIORITY_BITS, ABOVE_PRIORITY, PRIORITY_MAX = 512, 3584, 4096, 4

-- Outcomes of calls that end or extend a lease: there is no such job; done as requested; this delivery no longer holds
-- the job; it will run again with a newer version; it was deleted, as its producer had requested; it is dead.
local GONE, APPLIED, LOST, RERUN, CANCELLED, BURIED = 0, 1, 2, 3, 4, 5

local VERSION, HEADER, HEADER_BYTES = 2, '>BBHHI4I4I6I6I6H', 34

-- The default width. Scripts for a deployment with another width are loaded with that one.
local SLOT_MS = 65536
local LEAD_MS = SLOT_MS
local near_until_ms = (floor((now_ms + LEAD_MS) / SLOT_MS) + 1) * SLOT_MS

-- By level of far slots: the width of its slots, and how long before its begin a slot is loaded. That is one width of
-- the level below before the first slot that it spans is loaded.
local WIDTHS = { SLOT_MS, 64 * SLOT_MS, 4096 * SLOT_MS, 262144 * SLOT_MS }
local LEADS = { LEAD_MS, LEAD_MS + SLOT_MS, LEAD_MS + (1 + 64) * SLOT_MS, LEAD_MS + (1 + 64 + 4096) * SLOT_MS }

-- When the slot with this level and number is loaded.
local function load_at(level, slot)
  return slot * WIDTHS[level] - LEADS[level]
end

-- Due members take turns. The scores of an index are the times at which its members are due, and turns: scores below 0,
-- of members with a backlog. Turns do not depend on the clock, which may be set. A member has an index of its own.

-- The members of an index to serve: half with a turn, half newly due; each half may use places that the other does not need.
local function members_due(index, places)
  local due = call('ZRANGE', index, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, places)
  if #due < places then return due end
  due = call('ZRANGE', index, '-inf', '(0', 'BYSCORE', 'LIMIT', 0, places)
  local others = call('ZRANGE', index, 0, now_ms, 'BYSCORE', 'LIMIT', 0, max(math.ceil(places / 2), places - #due))
  for i = 1, #others do due[places - #others + i] = others[i] end
  return due
end

-- The turn behind all others of an index.
local last_turns = {}
local function next_turn(index)
  local last = last_turns[index]
    or call('ZRANGE', index, '(0', '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')[2] or -2^50
  last_turns[index] = last + 1
  return text('%d', last + 1)
end

-- Sets when a member of an index is due, after it was served. Returns whether it has a backlog.
local function due_again(index, member, of_member)
  local head_ms = call('ZRANGE', of_member, 0, 0, 'WITHSCORES')[2]
  local has_more = head_ms and tonumber(head_ms) <= now_ms
  if not head_ms then call('ZREM', index, member) else call('ZADD', index, has_more and next_turn(index) or head_ms, member) end
  return has_more
end

-- Whether any member of an index is due, and when a further one is, in ms (nil = none): that member need not wait until
-- the backlogs have their turns.
local function due_and_next(index)
  local head_ms = call('ZRANGE', index, 0, 0, 'WITHSCORES')[2]
  if not head_ms or tonumber(head_ms) > now_ms then return false, head_ms end
  return true, call('ZRANGE', index, text('(%d', now_ms), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
end

-- The row of a queue in the table of lanes. `numbers` are the numbers of lanes by which keys are placed, with commas: the
-- present one first, then former ones that are not settled.
local function lane_row(lanes, name)
  local row = call('HGET', lanes, name) or '1 1 0 1'
  local open, used, epoch, numbers = string.match(row, '^(%d+) (%d+) (%d+) ([%d,]+)$')
  return tonumber(open), tonumber(used), tonumber(epoch), numbers
end

-- A queue with one lane, in which all keys are, has no row.
local function keep_lane_row(lanes, name, open, used, epoch, numbers)
  if used == 1 and numbers == '1' then return call('HDEL', lanes, name) end
  call('HSET', lanes, name, text('%d %d %.0f %s', open, used, epoch, numbers))
end

-- The number of a queue in a bucket (0 = none), and the epoch with which its lane there is closed (nil = it is open).
local function queue_in_bucket(value)
  local epoch, queue = string.match(value or '', '^closed (%d+) (%d+)$')
  return tonumber(queue or value) or 0, tonumber(epoch)
end

-- Adds to a numeric field of a hash; returns the sum. A damaged field that is not a number restarts from 0: an error
-- would end the call after others of its writes.
local function count(hash, field, change)
  change = text('%d', change)
  local left = redis.pcall('HINCRBY', hash, field, change)
  if type(left) == 'number' then return left end
  call('HSET', hash, field, change)
  return tonumber(change)
end

-- The number of leased jobs in a count. A damaged one is 0: a limit must not hold back jobs for ever.
local function leased_in(count)
  count = count or ''
  return #count < 16 and tonumber(string.match(count, '^%d+$')) or 0
end

-- The field with the number of queues that the namespace of a queue has in a bucket.
local function count_field(name) return string.match(name, '^[^/]*/') end

-- Whether a namespace has as many queues in the bucket as it may.
local function namespace_is_full(queue_numbers, name, max_queues)
  return (tonumber(call('HGET', queue_numbers, count_field(name)) or 0) or 0) >= tonumber(max_queues)
end

-- Removes the number of a queue.
local function forget_queue(queue_numbers, name)
  call('HDEL', queue_numbers, name)
  if count(queue_numbers, count_field(name), -1) <= 0 then call('HDEL', queue_numbers, count_field(name)) end
end

-- The sweep checks queues in blocks of adjacent numbers, and forgets the queues that are empty and were idle for
-- IDLE_MS.
local QUEUES_PER_BLOCK, IDLE_MS = 100, 60000
