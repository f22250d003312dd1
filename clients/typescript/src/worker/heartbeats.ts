/**
 * Extends the leases of jobs that a worker holds, when a third of each has passed, all in one request.
 */

import { outcomesOf } from "../consume.js";
import { jsonCall, type Transport } from "../http/transport.js";
import { type LeaseOutcome } from "../wire/answers.js";
import { durationText } from "../wire/values.js";
import { type HookCalls } from "./hooks.js";
import { type HeldLease, type LeaseTable } from "./lease-table.js";
import { type AbortReason } from "./outcomes.js";

/** How often the table is looked into: the fastest and the slowest. */
const TICK_MIN_MS = 10;
const TICK_MAX_MS = 1_000;
/** A lease is extended after a third of it. Looking twice as often bounds how late that is. */
const TICKS_PER_LEASE = 6;
/** The most leases of a request. */
const TOUCH_LEASES_MAX = 1_000;
/** The shortest time that a request may take. */
const ANSWER_LIMIT_MIN_MS = 100;

/** Runs as long as the worker holds jobs. A lease that is not extended is tried again until it has ended. */
export class Heartbeats {
  readonly #transport: Transport;
  readonly #leases: LeaseTable;
  readonly #hooks: HookCalls;
  readonly #abort: (held: HeldLease, reason: AbortReason) => void;
  #timer: NodeJS.Timeout | undefined;
  #tickMs = TICK_MAX_MS;

  constructor(
    transport: Transport,
    leases: LeaseTable,
    hooks: HookCalls,
    abort: (held: HeldLease, reason: AbortReason) => void,
  ) {
    this.#transport = transport;
    this.#leases = leases;
    this.#hooks = hooks;
    this.#abort = abort;
  }

  /** A job was added to the table. */
  wake(): void {
    const tickMs = Math.min(Math.max(this.#leases.shortestMs / TICKS_PER_LEASE, TICK_MIN_MS), TICK_MAX_MS);
    if (this.#timer === undefined || tickMs < this.#tickMs) {
      clearInterval(this.#timer);
      this.#tickMs = tickMs;
      this.#timer = setInterval(() => this.#tick(), tickMs);
    }
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #tick(): void {
    if (this.#leases.size === 0) {
      this.stop();
      return;
    }
    const now = performance.now();
    for (const held of this.#leases.expired(now)) {
      this.#lost(held);
    }
    for (const [lengthMs, leases] of this.#leases.due(now)) {
      for (let from = 0; from < leases.length; from += TOUCH_LEASES_MAX) {
        void this.#extend(leases.slice(from, from + TOUCH_LEASES_MAX), lengthMs);
      }
    }
  }

  async #extend(leases: readonly HeldLease[], lengthMs: number): Promise<void> {
    const sentAt = performance.now();
    leases.forEach((held) => (held.isExtending = true));
    try {
      const outcomes = await this.#touch(leases, lengthMs);
      leases.forEach((held, index) => this.#apply(held, outcomes[index], sentAt));
    } catch (error) {
      this.#hooks.requestFailed({ request: "touch", error, retryInMs: this.#tickMs });
    } finally {
      leases.forEach((held) => (held.isExtending = false));
    }
  }

  async #touch(leases: readonly HeldLease[], lengthMs: number): Promise<LeaseOutcome[]> {
    // The length that was granted: the policy of the queue may have another one by now.
    const body = { leases: leases.map((held) => held.job.lease), lease: durationText("lease", lengthMs) };
    // An answer that is late must leave time for another request.
    const limitMs = Math.min(Math.max(lengthMs / 3, ANSWER_LIMIT_MIN_MS), this.#transport.timeLimitMs);
    const reply = await this.#transport.send(jsonCall("POST", "/touch", body, { limitMs }));
    return outcomesOf(reply.json());
  }

  #apply(held: HeldLease, outcome: LeaseOutcome | undefined, sentAt: number): void {
    if (outcome === undefined || !this.#leases.has(held)) {
      return;
    }
    if (outcome.outcome !== "extended") {
      this.#lost(held);
      return;
    }
    held.extendedAt = sentAt;
    held.expiresAt = sentAt + held.lengthMs;
    if (outcome.cancelRequested === true) {
      this.#abort(held, "cancel_requested");
    }
  }

  /** The end of the handler has no effect any more, so it is not reported. */
  #lost(held: HeldLease): void {
    if (this.#leases.remove(held)) {
      this.#abort(held, "lease_lost");
    }
  }
}
