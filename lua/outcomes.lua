-- outcomes: for scripts that publish jobs with keys. What they report of each job.
--- include versions

-- When a job is due next, in ms; 0 if it is done, or a consumer holds it.
local function next_due(job)
  return job and job[STATE] ~= LEASED and job[STATE] ~= DONE and job[DUE_MS] or 0
end

local results = {}

local function report(outcome, number, created_ms, nonce, state, due_ms)
  results[#results + 1] = struct.pack('>BI6I6HBI6', outcome, number, created_ms, nonce, state, due_ms)
end

local function refuse(outcome) report(outcome, 0, 0, 0, 0, 0) end

local function report_job(outcome, job, due_ms)
  report(outcome, tonumber(job[NUMBER]), job[CREATED_MS], job[NONCE], job[STATE], due_ms)
end

-- Reports the job of a request that was made before. Unlike then, the client may wait for the end of the job.
local function replay(queue, header, number, created_ms, nonce)
  local job = rarely().find(queue, text('%d', number), nonce, created_ms)
  if job and job[STATE] < DEAD then rarely().await_end(job, struct.unpack('>H', header, 3)) end
  report(REPLAYED, number, created_ms, nonce, job and job[STATE] or 0, next_due(job))
end
