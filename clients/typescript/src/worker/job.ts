/**
 * A job that a worker runs.
 */

import { LeasedJob } from "../leased-job.js";
import { type AbortReason, JobAborted } from "./outcomes.js";

/** A job that a handler runs. */
export class Job<T = unknown> extends LeasedJob<T> {
  #controller: AbortController | undefined;
  #abortReason: AbortReason | undefined;
  #parsed: { readonly payload: unknown } | undefined;

  override get payload(): T {
    return this.#parsed === undefined ? super.payload : (this.#parsed.payload as T);
  }

  /**
   * Is aborted when the handler should stop; its reason is a {@link JobAborted}. Give it to `fetch`, timers, and
   * whatever takes a signal.
   */
  get signal(): AbortSignal {
    // Made when it is first needed: many handlers are done before they could be aborted.
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#abortReason !== undefined) {
        this.#controller.abort(new JobAborted(this.#abortReason));
      }
    }
    return this.#controller.signal;
  }

  /** Why the handler was aborted; `undefined` if it was not. */
  get abortReason(): AbortReason | undefined {
    return this.#abortReason;
  }

  /** @internal Only the first reason counts. Returns whether it was the first one. */
  abort(reason: AbortReason): boolean {
    if (this.#abortReason !== undefined) {
      return false;
    }
    this.#abortReason = reason;
    this.#controller?.abort(new JobAborted(reason));
    return true;
  }

  /** @internal Sets the payload that the schema of the handler has returned. */
  setParsed(payload: unknown): void {
    this.#parsed = { payload };
  }
}
