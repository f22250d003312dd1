/**
 * A job of a queue, by its id or key.
 */

import { type ClientCore } from "./client.js";
import { Content } from "./content.js";
import { type JobRef, jobPath } from "./http/paths.js";
import { type Safety } from "./http/repeat.js";
import { type Call, jsonCall, type Reply } from "./http/transport.js";
import { type JobResult, type WaitOptions } from "./publish/publisher.js";
import { type CancelledJob, type ChangedJob, type JobDetails, type JobExplanation } from "./wire/answers.js";
import { fromWire, type JsonObject } from "./wire/names.js";
import { type Instant, optionalDuration, optionalInstant } from "./wire/values.js";

/** The fields to change in a job that waits: at least one. The others stay. */
export interface JobChange {
  readonly delayMs?: number;
  readonly runAt?: Instant;
  readonly startWithinMs?: number;
  readonly priority?: number;
}

/** @internal */
export function jobChangeFields(change: JobChange): JsonObject {
  return {
    delay: optionalDuration("delay", change.delayMs),
    run_at: optionalInstant("run_at", change.runAt),
    start_within: optionalDuration("start_within", change.startWithinMs),
    priority: change.priority,
  };
}

export interface CancelOptions {
  /**
   * The rule for a job that a worker holds: `refuse` (the default) throws `job_running`; `ask` asks the worker to stop;
   * `revoke` deletes the job now, and the worker is not stopped before its next heartbeat.
   */
  readonly running?: "refuse" | "ask" | "revoke";
}

/**
 * A job of a queue. Every method throws a `NotFoundError` with the code `job_not_found` if the job is done, cancelled
 * or expired, or never existed.
 */
export class JobHandle {
  readonly #core: ClientCore;
  readonly #queue: string;
  readonly #job: JobRef;

  /** @internal */
  constructor(core: ClientCore, queue: string, job: JobRef) {
    // A mistake in the name is found here.
    jobPath(queue, job);
    this.#core = core;
    this.#queue = queue;
    this.#job = job;
  }

  /** All about the job except its payload. With the scope `publish` alone only by its key, and without its history. */
  async show(): Promise<JobDetails> {
    return fromWire((await this.#read()).json());
  }

  /** Why the job does not run now. Needs the scope `read`. */
  async explain(): Promise<JobExplanation> {
    return fromWire((await this.#read("/explain")).json());
  }

  /** Its payload. Needs the scope `read`. */
  async payload(): Promise<Content> {
    const reply = await this.#read("/payload");
    const contentType = reply.headers.get("content-type") ?? "application/octet-stream";
    return new Content(reply.bytes, contentType, this.#core.transport.integers);
  }

  /**
   * Waits for the end of the job, and returns its result. A result is kept as long as the job: for `retainMs`, and at
   * least 10 s after a wait. Needs the scope `read`.
   *
   * @throws ConflictError `job_dead` if the job is dead
   */
  result(options: WaitOptions = { waitMs: 0 }): Promise<JobResult> {
    return this.#core.publisher.result(this.#queue, this.#job, options);
  }

  /** Changes a job that waits: when it is due, or its priority. */
  async change(change: JobChange): Promise<ChangedJob> {
    const call = jsonCall("PATCH", this.#path(), jobChangeFields(change));
    return fromWire((await this.#send(call, "safe")).json());
  }

  /** Makes a job due now. */
  async promote(): Promise<ChangedJob> {
    return fromWire((await this.#send({ method: "POST", path: this.#path("/promote") }, "safe")).json());
  }

  /**
   * Cancels the job. A job that is done and still kept is answered `already_done`.
   *
   * @throws ConflictError `job_running` if a worker holds it and `running` is `refuse`
   */
  async cancel(options: CancelOptions = {}): Promise<CancelledJob> {
    const query = options.running === undefined ? "" : `running=${encodeURIComponent(options.running)}`;
    const path = jobPath(this.#queue, this.#job, "", query);
    return fromWire((await this.#send({ method: "DELETE", path }, "safe")).json());
  }

  #path(rest = ""): string {
    return jobPath(this.#queue, this.#job, rest);
  }

  #read(rest = ""): Promise<Reply> {
    return this.#send({ method: "GET", path: this.#path(rest) }, "safe");
  }

  #send(call: Call, safety: Safety): Promise<Reply> {
    return this.#core.transport.sendRepeated(call, safety);
  }
}
