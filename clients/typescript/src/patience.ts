/**
 * Waits that take several requests.
 */

import { setTimeout as delay } from "node:timers/promises";

import { invalid } from "./errors.js";

/** The longest wait of one request. Proxies, and `fetch` itself, close connections that are silent for longer. */
const REQUEST_WAIT_MAX_MS = 20_000;
/** A server that stops answers before the wait is over: requests follow each other no faster than this. */
const PACE_MS = 50;

/** The time that is left of a wait. */
export class Patience {
  readonly #endsAt: number;
  #askedAt = -Infinity;

  constructor(waitMs: number) {
    if (!(waitMs >= 0)) {
      throw invalid("wait", `is a number of milliseconds of 0 or more, not ${String(waitMs)}`);
    }
    this.#endsAt = performance.now() + waitMs;
  }

  get isOver(): boolean {
    return performance.now() >= this.#endsAt;
  }

  /** The wait of the next request. */
  nextWait(): number {
    this.#askedAt = performance.now();
    const left = Math.ceil(this.#endsAt - this.#askedAt);
    return Math.min(Math.max(left, 0), REQUEST_WAIT_MAX_MS);
  }

  /** Before the next request, if the last one was answered early. */
  async pace(signal: AbortSignal | undefined): Promise<void> {
    const now = performance.now();
    const pauseMs = Math.min(this.#askedAt + PACE_MS, this.#endsAt) - now;
    if (pauseMs > 0) {
      await delay(pauseMs, undefined, { signal });
    }
  }
}
