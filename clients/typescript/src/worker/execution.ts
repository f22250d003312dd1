/**
 * One run of a handler.
 */

import { TIMER_MAX_MS } from "../timers.js";
import { inSpan } from "../traces.js";
import { type WrappedHandler } from "./handlers.js";
import { type HookCalls } from "./hooks.js";
import { type Job } from "./job.js";
import { endOfReturn, endOfThrow, type RunEnd } from "./outcomes.js";

/** How long a handler that was aborted may take to end. Then its slot is free, and it runs on without a job. */
export const ABORT_LIMIT_MS = 1_000;

/** What a run needs besides its job. */
export interface ExecutionContext {
  readonly handlers: ReadonlyMap<string, WrappedHandler>;
  readonly hooks: HookCalls;
  readonly maxRunMs: number | undefined;
  readonly abort: (job: Job) => void;
}

/** Runs the handler of a job. Never throws. */
export async function runHandler(context: ExecutionContext, job: Job): Promise<RunEnd> {
  context.hooks.started(job);
  // An error of the tracer must not end the process, either.
  const running = inSpan(job, () => handle(context, job), failureOf).catch(endOfThrow);
  return context.maxRunMs === undefined ? running : limited(context, job, running, context.maxRunMs);
}

async function handle(context: ExecutionContext, job: Job): Promise<RunEnd> {
  const handler = context.handlers.get(job.queue);
  if (handler === undefined) {
    return { kind: "release" };
  }
  try {
    return endOfReturn(await handler(job));
  } catch (error) {
    return endOfThrow(error);
  }
}

function failureOf(end: RunEnd): string | undefined {
  return end.kind === "fail" ? end.error : undefined;
}

/** Aborts a handler that runs for too long. One that does not end then is left alone. */
async function limited(
  context: ExecutionContext,
  job: Job,
  running: Promise<RunEnd>,
  maxRunMs: number,
): Promise<RunEnd> {
  const tooLong: RunEnd = { kind: "fail", error: `the handler did not end within ${maxRunMs} ms` };
  let timer: NodeJS.Timeout | undefined;
  const giveUp = new Promise<RunEnd>((resolve) => {
    timer = setTimeout(() => {
      context.abort(job);
      timer = setTimeout(() => resolve(tooLong), ABORT_LIMIT_MS);
    }, Math.min(maxRunMs, TIMER_MAX_MS));
  });
  const end = await Promise.race([running, giveUp]);
  clearTimeout(timer);
  return job.abortReason === "max_run" && end.kind === "fail" ? tooLong : end;
}
