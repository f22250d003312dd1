/**
 * Publishes jobs: single ones, batches, and calls that wait for results.
 */

import { Content } from "../content.js";
import { type TidegateError } from "../errors.js";
import { type JobRef, jobPath } from "../http/paths.js";
import { type Reply, type Transport } from "../http/transport.js";
import { Patience } from "../patience.js";
import { type PublishedJob } from "../wire/answers.js";
import { durationText } from "../wire/values.js";
import { PublishGatherer } from "./gatherer.js";
import { jobToSend, type PublishOptions } from "./options.js";
import { batchCall, batchItem, batchResults, singleCall, waitingCall } from "./requests.js";

/** A job of a batch. */
export interface BatchJob extends PublishOptions {
  /** A value of JSON; or bytes, a `Content` or a `JsonText`. */
  readonly payload: unknown;
}

export interface BatchOptions {
  /** All jobs are stored, or none: up to 64 jobs. */
  readonly atomic?: boolean;
}

/** The end of a call, or of a wait for a result. */
export type JobResult =
  | {
      readonly status: "done";
      /** The result of the worker; absent if it returned none. */
      readonly result: Content | undefined;
    }
  | {
      /** The job has not ended in time. It continues: ask for its result later, or cancel it. */
      readonly status: "pending";
      readonly id: string;
    };

/** How long to wait for a result. */
export interface WaitOptions {
  /** The longest wait in ms, up to 24 hours. 0 does not wait. */
  readonly waitMs: number;
  /** Ends the wait. The job continues. */
  readonly signal?: AbortSignal;
}

export type CallOptions = PublishOptions & WaitOptions;

/** @internal */
export class Publisher {
  readonly #transport: Transport;
  readonly #gatherer: PublishGatherer;

  constructor(transport: Transport) {
    this.#transport = transport;
    this.#gatherer = new PublishGatherer(transport);
  }

  async publish(queue: string, payload: unknown, options: PublishOptions): Promise<PublishedJob> {
    const job = jobToSend(queue, payload, options);
    // A mistake in the request must not appear while it waits for others.
    singleCall(job);
    return this.#transport.repeated(job.safety, false, () => this.#gatherer.publish(job));
  }

  async publishBatch(
    queue: string,
    jobs: readonly BatchJob[],
    options: BatchOptions,
  ): Promise<(PublishedJob | TidegateError)[]> {
    if (jobs.length === 0) {
      return [];
    }
    const toSend = jobs.map(({ payload, ...jobOptions }) => jobToSend(queue, payload, jobOptions));
    const call = batchCall(queue, toSend.map(batchItem), options.atomic);
    const isSafe = toSend.every((job) => job.safety === "safe");
    return batchResults(await this.#transport.sendRepeated(call, isSafe ? "safe" : "once"));
  }

  async call(queue: string, payload: unknown, options: CallOptions): Promise<JobResult> {
    const { waitMs, signal, ...publishOptions } = options;
    const job = jobToSend(queue, payload, publishOptions);
    const patience = new Patience(waitMs);
    const attempt = (): Promise<Reply> => this.#transport.send(waitingCall(job, patience.nextWait(), signal));
    const reply = await this.#transport.repeated(job.safety, false, attempt);
    const end = resultOf(reply, this.#transport);
    return end.status === "done" || patience.isOver ? end : this.#poll(queue, end.id, patience, signal);
  }

  async result(queue: string, job: JobRef, options: WaitOptions): Promise<JobResult> {
    return this.#poll(queue, job, new Patience(options.waitMs), options.signal);
  }

  async #poll(queue: string, job: JobRef, patience: Patience, signal?: AbortSignal): Promise<JobResult> {
    for (;;) {
      const attempt = (): Promise<Reply> => {
        const waitMs = patience.nextWait();
        const path = jobPath(queue, job, "/result", `wait=${durationText("wait", waitMs)}`);
        return this.#transport.send({ method: "GET", path, waitMs, signal });
      };
      const reply = await this.#transport.repeated("safe", true, attempt);
      const end = resultOf(reply, this.#transport);
      if (end.status === "done" || patience.isOver) {
        return end;
      }
      await patience.pace(signal);
    }
  }
}

function resultOf(reply: Reply, transport: Transport): JobResult {
  if (reply.status === 202) {
    return { status: "pending", id: (reply.json() as { id: string }).id };
  }
  if (reply.status === 204) {
    return { status: "done", result: undefined };
  }
  const contentType = reply.headers.get("content-type") ?? "application/octet-stream";
  return { status: "done", result: new Content(reply.bytes, contentType, transport.integers) };
}
