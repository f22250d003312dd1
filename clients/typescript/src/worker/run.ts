/**
 * A run of a worker, from its start to its stop.
 */

import { type Transport } from "../http/transport.js";
import { ABORT_LIMIT_MS, runHandler } from "./execution.js";
import { type WrappedHandler } from "./handlers.js";
import { Heartbeats } from "./heartbeats.js";
import { type HookCalls } from "./hooks.js";
import { type Job } from "./job.js";
import { type HeldLease, LeaseTable } from "./lease-table.js";
import { type AbortReason, type RunEnd } from "./outcomes.js";
import { Reports } from "./reports.js";
import { ReserveLoop, type ReserveSettings } from "./reserve-loop.js";
import { within } from "./within.js";

/** How long a stop waits until the server has the last reports. */
const DRAIN_LIMIT_MS = 10_000;
/** How long a stop waits for the rest of an answer that has begun. */
const LAST_ANSWER_LIMIT_MS = 1_000;

export interface RunSettings extends ReserveSettings {
  readonly handlers: ReadonlyMap<string, WrappedHandler>;
  readonly maxRunMs: number | undefined;
}

/** Why a run stops. */
export interface StopCause {
  readonly graceMs: number;
  readonly signal?: NodeJS.Signals;
  /** The server refuses the key: the run ends with this error. */
  readonly error?: unknown;
}

export class WorkerRun {
  readonly #settings: RunSettings;
  readonly #hooks: HookCalls;
  readonly #leases = new LeaseTable();
  readonly #heartbeats: Heartbeats;
  readonly #reports: Reports;
  readonly #loop: ReserveLoop;
  /** Jobs that wait for a slot. */
  readonly #waiting: HeldLease[] = [];
  readonly #graceMs: number;
  #running = 0;
  #whenIdle: (() => void)[] = [];
  #stopping: Promise<void> | undefined;
  #resolveEnded!: () => void;
  #rejectEnded!: (error: unknown) => void;

  /** Ends with the worker; with an error if the server refused its key. */
  readonly ended: Promise<void>;

  constructor(transport: Transport, settings: RunSettings, hooks: HookCalls, graceMs: number) {
    this.#settings = settings;
    this.#hooks = hooks;
    this.#graceMs = graceMs;
    this.ended = new Promise((resolve, reject) => {
      this.#resolveEnded = resolve;
      this.#rejectEnded = reject;
    });
    this.#heartbeats = new Heartbeats(transport, this.#leases, hooks, (held, reason) => this.#abort(held.job, reason));
    this.#reports = new Reports(transport, hooks);
    const sink = {
      held: () => this.#running + this.#waiting.length,
      take: (job: Job, lengthMs: number) => this.#take(job, lengthMs),
      startWaiting: () => this.#startWaiting(),
      refused: (error: unknown) => void this.stop({ graceMs: this.#graceMs, error }),
    };
    this.#loop = new ReserveLoop(transport, settings, sink, this.#reports, hooks);
  }

  start(): void {
    this.#loop.wake();
  }

  /** Stops, once. Returns when the run has ended. */
  stop(cause: StopCause): Promise<void> {
    if (this.#stopping === undefined) {
      this.#hooks.stopping(cause);
      this.#stopping = this.#stop(cause.graceMs);
      void this.#stopping.then(() =>
        cause.error === undefined ? this.#resolveEnded() : this.#rejectEnded(cause.error),
      );
    }
    return this.#stopping;
  }

  async #stop(graceMs: number): Promise<void> {
    const graceEnds = performance.now() + graceMs;
    // Jobs that wait are free for others at once, and jobs of an answer that is being read soon after.
    this.#waiting.splice(0).forEach((held) => this.#giveBack(held));
    this.#loop.wake();
    await within(LAST_ANSWER_LIMIT_MS, this.#loop.stop());
    await this.#idle(graceEnds - performance.now());
    await this.#abortAll();
    this.#heartbeats.stop();
    const left = await this.#reports.drain(DRAIN_LIMIT_MS);
    if (left > 0) {
      this.#hooks.warning(`failed to report ${left} jobs at the stop; they run again when their leases end`);
    }
  }

  /** Aborts the handlers that run, and gives their jobs back. */
  async #abortAll(): Promise<void> {
    for (const held of this.#leases) {
      this.#abort(held.job, "stopping");
    }
    await this.#idle(ABORT_LIMIT_MS);
    for (const held of this.#leases.drain()) {
      this.#reports.add(held, { kind: "release" });
    }
  }

  /** Waits until no handler runs, for up to so long. */
  async #idle(limitMs: number): Promise<void> {
    if (this.#running > 0) {
      await within(limitMs, new Promise<void>((resolve) => this.#whenIdle.push(resolve)));
    }
  }

  #take(job: Job, lengthMs: number): void {
    const held = this.#leases.add(job, lengthMs, performance.now());
    if (this.#stopping === undefined) {
      this.#waiting.push(held);
      this.#heartbeats.wake();
    } else {
      this.#giveBack(held);
    }
  }

  #giveBack(held: HeldLease): void {
    if (this.#leases.remove(held)) {
      this.#reports.add(held, { kind: "release" });
    }
  }

  #startWaiting(): void {
    while (this.#running < this.#settings.slots) {
      const held = this.#waiting.shift();
      if (held === undefined) {
        return;
      }
      // A job that waited for a slot may be lost or cancelled by now.
      if (held.job.abortReason !== undefined) {
        this.#giveBack(held);
      } else {
        void this.#run(held);
      }
    }
  }

  async #run(held: HeldLease): Promise<void> {
    const { handlers, maxRunMs } = this.#settings;
    const startedAt = performance.now();
    const abort = (job: Job): void => this.#abort(job, "max_run");
    this.#running += 1;
    const end = await runHandler({ handlers, hooks: this.#hooks, maxRunMs, abort }, held.job);
    this.#running -= 1;
    this.#report(held, end, performance.now() - startedAt);
    if (this.#running === 0) {
      this.#whenIdle.splice(0).forEach((resolve) => resolve());
    }
    this.#loop.wake();
  }

  #report(held: HeldLease, end: RunEnd, durationMs: number): void {
    // A handler that failed because the worker stops did not fail: its job is given back.
    const isGivenBack = end.kind === "fail" && held.job.abortReason === "stopping";
    const reported: RunEnd = isGivenBack ? { kind: "release" } : end;
    const isLost = !this.#leases.remove(held);
    if (!isLost) {
      this.#reports.add(held, reported);
    }
    const error = reported.kind === "fail" ? reported.error : undefined;
    this.#hooks.ended({ job: held.job, end: endName(reported), error, durationMs, isLost });
  }

  #abort(job: Job, reason: AbortReason): void {
    if (job.abort(reason)) {
      this.#hooks.aborted(job, reason);
    }
  }
}

function endName(end: RunEnd): "done" | "failed" | "dead" | "released" {
  switch (end.kind) {
    case "done":
      return "done";
    case "release":
      return "released";
    case "fail":
      return end.dead === true ? "dead" : "failed";
  }
}
