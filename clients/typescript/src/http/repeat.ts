/**
 * When and how often a request is repeated.
 */

import { setTimeout as delay } from "node:timers/promises";

import { isShortFailure, type TidegateError } from "../errors.js";

/**
 * How often a request that failed is repeated, and the delays between.
 *
 * The first delay is doubled up to the longest one, and each is made longer at random, up to twice. A `Retry-After` of
 * up to 30 s is waited for; if it is longer, the error is returned.
 */
export interface RepeatLimits {
  /** The most repetitions; 0 for none. Default: 7. */
  readonly repetitions: number;
  /** The first delay. Default: 100. */
  readonly firstDelayMs: number;
  /** The longest delay, before it is made longer at random. Default: 5,000. */
  readonly longestDelayMs: number;
}

export const DEFAULT_REPEAT_LIMITS: RepeatLimits = { repetitions: 7, firstDelayMs: 100, longestDelayMs: 5_000 };

/** The longest `Retry-After` that is waited for. */
export const RETRY_AFTER_MAX_MS = 30_000;

/**
 * Which requests are repeated: `safe` ones change nothing that they have changed already; of the others each execution
 * counts, so they are repeated only if nothing was changed.
 */
export type Safety = "safe" | "once";

/** The delays before the repetitions of one request. */
export class RepeatDelays {
  readonly #limits: RepeatLimits;
  readonly #random: () => number;
  #used = 0;

  constructor(limits: RepeatLimits, random: () => number = Math.random) {
    this.#limits = limits;
    this.#random = random;
  }

  /** For calls that are repeated as long as something else allows it. */
  static endless(firstDelayMs: number, longestDelayMs: number): RepeatDelays {
    return new RepeatDelays({ repetitions: Infinity, firstDelayMs, longestDelayMs });
  }

  /** The delay after this error in ms; `undefined` if the request is not repeated any more. */
  next(retryAfterMs?: number): number | undefined {
    if (this.#used >= this.#limits.repetitions) {
      return undefined;
    }
    if (retryAfterMs !== undefined && retryAfterMs > RETRY_AFTER_MAX_MS) {
      return undefined;
    }
    const doubled = this.#limits.firstDelayMs * 2 ** Math.min(this.#used, 30);
    this.#used += 1;
    const own = Math.min(doubled, this.#limits.longestDelayMs) * (1 + this.#random());
    return Math.max(own, retryAfterMs ?? 0);
  }

  /** The delay after this error, for endless repetitions: a longer `Retry-After` counts as 30 s. */
  nextEndless(retryAfterMs?: number): number {
    return this.next(Math.min(retryAfterMs ?? 0, RETRY_AFTER_MAX_MS)) ?? RETRY_AFTER_MAX_MS;
  }

  /** The request succeeded: the next delay is the first one again. */
  reset(): void {
    this.#used = 0;
  }
}

/** Waits so long. */
export type Sleep = (ms: number) => Promise<unknown>;

const sleepForReal: Sleep = (ms) => delay(ms);

export interface RepeatedRequest {
  readonly safety: Safety;
  /** Whether the request only reads. */
  readonly isRead: boolean;
  readonly limits: RepeatLimits;
  /** For tests. */
  readonly sleep?: Sleep | undefined;
}

function mayRepeat(error: TidegateError, safety: Safety): boolean {
  return error.applied === "no" || (error.applied === "unknown" && safety === "safe");
}

/**
 * Whether the error of the last repetition says that nothing was changed, which is not known of the attempts before it.
 * A 404 does not: that something is not there is so however it came about.
 */
function hidesLostAnswer(request: RepeatedRequest, last: TidegateError): boolean {
  return !request.isRead && last.applied === "no" && last.status !== 404;
}

/** Makes attempts until one succeeds, or its error must not be repeated. */
export async function repeated<T>(request: RepeatedRequest, attempt: () => Promise<T>): Promise<T> {
  const delays = new RepeatDelays(request.limits);
  const sleep = request.sleep ?? sleepForReal;
  let firstLost: TidegateError | undefined;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      const isRepeated = isShortFailure(error) && mayRepeat(error, request.safety);
      const pause = isRepeated ? delays.next(error.retryAfterMs) : undefined;
      if (pause === undefined) {
        const last = error as TidegateError;
        throw firstLost !== undefined && hidesLostAnswer(request, last) ? firstLost : error;
      }
      if ((error as TidegateError).applied === "unknown") {
        firstLost ??= error as TidegateError;
      }
      await sleep(pause);
    }
  }
}
