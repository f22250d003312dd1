/**
 * The leases that a worker holds.
 */

import { type Job } from "./job.js";

/** A job that this worker holds: its handler runs, or it waits for a slot. Times are of `performance.now()`. */
export interface HeldLease {
  readonly job: Job;
  readonly lengthMs: number;
  expiresAt: number;
  /** When it was granted or last extended. */
  extendedAt: number;
  isExtending: boolean;
}

const LENGTH_STEP_MS = 10;
const LENGTH_MIN_MS = 100;

/**
 * The length of a lease that ends at this instant, rounded, so that leases of one policy are extended in one request
 * although the server rounds their ends.
 */
export function leaseLength(now: string | undefined, until: string): number {
  const exact = now === undefined ? LENGTH_MIN_MS : Date.parse(until) - Date.parse(now);
  return Math.max(Math.round(exact / LENGTH_STEP_MS) * LENGTH_STEP_MS, LENGTH_MIN_MS);
}

/** The jobs of the worker. Who removes a job from the table reports its end, so it is reported once. */
export class LeaseTable {
  readonly #held = new Set<HeldLease>();
  #shortestMs = Infinity;

  get size(): number {
    return this.#held.size;
  }

  /** The length of the shortest lease ever held. */
  get shortestMs(): number {
    return this.#shortestMs;
  }

  add(job: Job, lengthMs: number, now: number): HeldLease {
    const held = { job, lengthMs, expiresAt: now + lengthMs, extendedAt: now, isExtending: false };
    this.#held.add(held);
    this.#shortestMs = Math.min(this.#shortestMs, lengthMs);
    return held;
  }

  has(held: HeldLease): boolean {
    return this.#held.has(held);
  }

  /** Removes a job. Returns whether the worker held it until now. */
  remove(held: HeldLease): boolean {
    return this.#held.delete(held);
  }

  /** Removes all jobs. */
  drain(): HeldLease[] {
    const all = [...this.#held];
    this.#held.clear();
    return all;
  }

  [Symbol.iterator](): IterableIterator<HeldLease> {
    return this.#held.values();
  }

  /** The leases that have ended. */
  expired(now: number): HeldLease[] {
    return [...this.#held].filter((held) => held.expiresAt <= now);
  }

  /** The leases of which a third has passed, by their length. */
  due(now: number): Map<number, HeldLease[]> {
    const due = new Map<number, HeldLease[]>();
    for (const held of this.#held) {
      if (!held.isExtending && now - held.extendedAt >= held.lengthMs / 3) {
        const same = due.get(held.lengthMs);
        same === undefined ? due.set(held.lengthMs, [held]) : same.push(held);
      }
    }
    return due;
  }
}
