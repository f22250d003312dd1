#!lua flags=allow-oom
-- workers_list: returns which workers of a namespace are known.
-- KEYS[1] workers hash: process → until when the entry counts, in ms, a space, and its workers as JSON
-- ARGV[1] prefix  unused
-- ARGV[2] now     ms; '' = Redis's clock
-- Returns ok → now_ms; then for each process for how many ms its entry still counts, and its workers
-- Changes: removes entries that count no longer
-- Errors: those of scripts that write (prelude.lua)
-- Since layout 2

local entries, reply = call('HGETALL', KEYS[1]), { 'ok', now_ms }
for i = 1, #entries, 2 do
  local end_ms, value = string.match(entries[i + 1], '^(%d+) (.*)$')
  local left_ms = end_ms and end_ms - now_ms or 0
  if left_ms > 0 then
    reply[#reply + 1], reply[#reply + 2] = left_ms, value
  else
    call('HDEL', KEYS[1], entries[i])
  end
end
return reply
