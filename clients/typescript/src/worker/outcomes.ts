/**
 * How a handler ends.
 *
 * A handler that returns has done its job, and the value, if any, is the result. Any error means a retry by the policy
 * of the queue. The classes here say otherwise; a handler throws or returns them.
 */

/** A delay in milliseconds. */
export interface Delay {
  readonly delayMs: number;
}

/** @internal The text of anything that was thrown. */
export function errorText(error: unknown): string {
  try {
    const text = error instanceof Error ? error.message || error.name : error;
    return String(text);
  } catch {
    return "an error that has no text";
  }
}

function causeOf(error: unknown): { cause: unknown } {
  return { cause: error };
}

/** The attempt failed. The next attempt is after this delay, unless this was the last one. */
export class RetryIn extends Error {
  readonly delayMs: number;

  /**
   * @param error the reason, for the history of the job
   * @param delay the time to the next attempt
   */
  constructor(error: unknown, delay: Delay) {
    super(errorText(error), causeOf(error));
    this.name = "RetryIn";
    this.delayMs = delay.delayMs;
  }
}

/** No attempt can succeed: the job goes to the dead letter, from where `queue.respawn()` brings it back. */
export class Dead extends Error {
  /** @param error the reason, for the history of the job */
  constructor(error: unknown) {
    super(errorText(error), causeOf(error));
    this.name = "Dead";
  }
}

/** Not now: the job is due again after this delay. This counts as no failure. */
export class Snooze extends Error {
  readonly delayMs: number;

  constructor(delay: Delay) {
    super(`snoozed for ${delay.delayMs} ms`);
    this.name = "Snooze";
    this.delayMs = delay.delayMs;
  }
}

/**
 * Why a handler was aborted:
 *
 * - `lease_lost`: the worker does not hold the job any more; the end of the handler has no effect,
 * - `cancel_requested`: the producer has cancelled the job; an error deletes it, a return ends it as done,
 * - `max_run`: the handler took too long; an error means a retry,
 * - `stopping`: the worker stops, and the grace period is over; an error gives the job back.
 */
export type AbortReason = "lease_lost" | "cancel_requested" | "max_run" | "stopping";

const REASON_TEXTS: Readonly<Record<AbortReason, string>> = {
  lease_lost: "the lease of the job is lost",
  cancel_requested: "the job was cancelled",
  max_run: "the handler took too long",
  stopping: "the worker stops",
};

/** The `reason` of the signal of a job that was aborted. */
export class JobAborted extends Error {
  constructor(readonly reason: AbortReason) {
    super(REASON_TEXTS[reason]);
    this.name = "JobAborted";
  }
}

/** @internal The end of a run, as it is reported. */
export type RunEnd =
  | { readonly kind: "done"; readonly result: unknown }
  | { readonly kind: "fail"; readonly error: string; readonly retryInMs?: number | undefined; readonly dead?: true }
  | { readonly kind: "release"; readonly delayMs?: number | undefined };

/** @internal The end of a run whose handler returned this value. */
export function endOfReturn(value: unknown): RunEnd {
  if (value instanceof RetryIn || value instanceof Dead || value instanceof Snooze) {
    return endOfThrow(value);
  }
  return { kind: "done", result: value };
}

/** @internal The end of a run whose handler threw this. */
export function endOfThrow(error: unknown): RunEnd {
  if (error instanceof Snooze) {
    return { kind: "release", delayMs: error.delayMs };
  }
  if (error instanceof Dead) {
    return { kind: "fail", error: error.message, dead: true };
  }
  const retryInMs = error instanceof RetryIn ? error.delayMs : undefined;
  return { kind: "fail", error: errorText(error), retryInMs };
}
