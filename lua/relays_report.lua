#!lua
-- relays_report: stores what a process reports of some relays, for people.
-- KEYS[1] relays  hash of the relays (table_set)
-- KEYS[2] reports hash: namespace/relay → revision of the relay, when the report was stored in ms, rank of the state, number of the
--                 process, and the status as JSON, with a space between each
-- ARGV[1] prefix  unused
-- ARGV[2] now     ms; '' = Redis's clock
-- ARGV[3] process random number of the process
-- ARGV[4] ttl_ms  how long a report counts
-- ARGV[5] relay   name of a relay, its revision, the rank of its state (a worse state has a greater one), its status as JSON; further
--                 relays follow
-- Returns ok
-- Changes: the report of each relay that has this revision, unless the report of another process counts and is not better
-- Errors: the errors of scripts that write (prelude.lua), among them OOM at maxmemory: reports are hints, and repeated
-- Since layout 2
--- include prelude

local relays, reports, process, ttl_ms, first_relay = KEYS[1], KEYS[2], ARGV[3], tonumber(ARGV[4]), 5

for i = first_relay, #ARGV, 4 do
  local name, revision, rank, status = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if sub(call('HGET', relays, name) or '', 1, #revision + 1) == revision .. ' ' then
    local report = call('HGET', reports, name) or ''
    local of, at_ms, old_rank, by = string.match(report, '^(%S+) (%d+) (%d+) (%S+) ')
    -- Of several processes the process with the worst state is shown, and of equals always the same.
    local stays = of == revision and by ~= process and tonumber(old_rank) >= tonumber(rank)
    -- A clock that was set back must not keep a report for long.
    if not stays or math.abs(now_ms - at_ms) >= ttl_ms then
      call('HSET', reports, name, text('%s %.0f %s %s ', revision, now_ms, rank, process) .. status)
    end
  end
end
return { 'ok' }
