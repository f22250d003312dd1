/**
 * A queue: its jobs, its counts and its policy.
 */

import { setTimeout as delay } from "node:timers/promises";

import { type ClientCore } from "./client.js";
import { type Condition, conditionHeaders } from "./condition.js";
import { type TidegateError } from "./errors.js";
import { type JobRef, queuePath } from "./http/paths.js";
import { type Safety } from "./http/repeat.js";
import { type Call, jsonCall, type Reply } from "./http/transport.js";
import { type JobChange, jobChangeFields, JobHandle } from "./job-handle.js";
import { listPages, type PageOptions } from "./lists.js";
import { type PublishOptions, type RetryOptions } from "./publish/options.js";
import { type BatchJob, type BatchOptions, type CallOptions, type JobResult } from "./publish/publisher.js";
import { type JobDetails, type JobState, type Policy, type PublishedJob, type QueueCounts } from "./wire/answers.js";
import { fromWire, type JsonObject, toWire } from "./wire/names.js";
import { type DurationText, type Instant } from "./wire/values.js";

/** A filter for jobs: a job matches if it matches all its fields. */
export interface JobFilter {
  readonly state?: JobState;
  /** Jobs that are due at this instant or later; for leased jobs the end of the lease, for dead ones their death. */
  readonly dueFrom?: Instant;
  /** Jobs that are due before this instant. */
  readonly dueBefore?: Instant;
  readonly keyPrefix?: string;
  readonly group?: string;
  /** `NAME=VALUE`. */
  readonly attribute?: string;
  /** A part of the last error. */
  readonly errorContains?: string;
}

/** A change of a policy: absent fields stay, `null` is the default. Durations are texts such as `90s`. */
export interface PolicyChange {
  readonly lease?: DurationText | null;
  readonly retry?: RetryOptions | null;
  readonly retain?: DurationText | null;
  readonly paused?: boolean | null;
  readonly pausedUntil?: Instant | null;
  readonly closed?: boolean | null;
  readonly maxJobs?: number | null;
  readonly maxRunning?: number | null;
  readonly groups?: { readonly maxRunning?: number | null } | null;
  readonly rate?: { readonly jobs?: number | null; readonly per?: DurationText | null } | null;
  readonly limit?: string | null;
  readonly keepDead?: DurationText | null;
}

/** What to do with the jobs that match a filter. */
export interface ActOptions {
  /** `purge` needs `filter.state`. */
  readonly action: "cancel" | "promote" | "change" | "respawn" | "purge";
  readonly filter?: JobFilter;
  /** Only counts the jobs. */
  readonly dryRun?: boolean;
  /** Of `cancel`: the rule for a job that a worker holds. Default: `refuse`. */
  readonly running?: "refuse" | "ask" | "revoke";
  /** Of `change`. */
  readonly change?: JobChange;
  /** Of `respawn`: the jobs become due evenly spaced. */
  readonly ratePerSecond?: number;
  /** The most jobs of one request: 1 to 1,000. Default: 100. */
  readonly pageSize?: number;
}

/** How many jobs an action found and changed. */
export interface ActResult {
  readonly matched: number;
  readonly changed: number;
}

/** The policy of a queue, with the `ETag` of its version for `ifMatch`. */
export type VersionedPolicy = Policy & { readonly etag: string | undefined };

/** A queue of a namespace. */
export class Queue {
  readonly #core: ClientCore;
  readonly #path: string;

  /** @internal */
  constructor(
    core: ClientCore,
    /** The name of the queue. */
    readonly name: string,
  ) {
    this.#core = core;
    this.#path = queuePath(name);
  }

  /** Publishes a job; see `Client.publish`. */
  publish(payload: unknown, options: PublishOptions = {}): Promise<PublishedJob> {
    return this.#core.publisher.publish(this.name, payload, options);
  }

  /** Publishes up to 1,000 jobs in one request; see `Client.publishBatch`. */
  publishBatch(jobs: readonly BatchJob[], options: BatchOptions = {}): Promise<(PublishedJob | TidegateError)[]> {
    return this.#core.publisher.publishBatch(this.name, jobs, options);
  }

  /** Publishes a job and waits for its result; see `Client.call`. */
  call(payload: unknown, options: CallOptions): Promise<JobResult> {
    return this.#core.publisher.call(this.name, payload, options);
  }

  /** A job by its id, or by its key: `queue.job({ key: "order-17" })`. No request is sent. */
  job(job: JobRef): JobHandle {
    return new JobHandle(this.#core, this.name, job);
  }

  /** The jobs that match a filter, read page by page. Needs the scope `read`. */
  jobs(filter: JobFilter = {}, options: PageOptions = {}): AsyncGenerator<JobDetails, void, undefined> {
    return listPages(this.#core.transport, `${this.#path}/jobs`, toWire(filter) as JsonObject, options);
  }

  /**
   * Does something with all jobs that match a filter, page by page. Needs the scope `admin`.
   *
   * After an error some jobs may be changed. The action may be begun again: jobs that were changed do not match.
   */
  async act(options: ActOptions): Promise<ActResult> {
    const { action, filter = {}, change, pageSize, ...rest } = options;
    const fields = { ...rest, do: action, filter, limit: pageSize };
    const body = { ...(toWire(fields) as JsonObject), change: change && jobChangeFields(change) };
    let [matched, changed] = [0, 0];
    let cursor: string | undefined;
    for (;;) {
      const call = jsonCall("POST", `${this.#path}/jobs/act`, { ...body, cursor });
      const page = fromWire<ActPage>((await this.#send(call, "safe")).json());
      matched += page.matched;
      changed += page.changed;
      if (page.next === null) {
        return { matched, changed };
      }
      cursor = page.next;
      await delay(page.waitMs);
    }
  }

  /** How many jobs the queue has, by state. A queue that was never used has none. */
  async counts(): Promise<QueueCounts> {
    return this.#read("");
  }

  /** The policy of the queue. */
  async policy(): Promise<VersionedPolicy> {
    return versioned(await this.#send({ method: "GET", path: `${this.#path}/policy` }, "safe"));
  }

  /**
   * Changes the policy: fields that are absent stay. It is in effect everywhere within a second.
   *
   * @throws ConflictError `version_mismatch` if the condition is not met
   */
  setPolicy(change: PolicyChange, condition: Condition = {}): Promise<VersionedPolicy> {
    return this.#writePolicy("PATCH", change, condition);
  }

  /** Replaces the policy: fields that are absent have their defaults. */
  replacePolicy(policy: PolicyChange, condition: Condition = {}): Promise<VersionedPolicy> {
    return this.#writePolicy("PUT", policy, condition);
  }

  /** Deletes all ready jobs, or all dead ones. Returns how many. */
  async purge(state: "ready" | "dead"): Promise<number> {
    const reply = await this.#send(jsonCall("POST", `${this.#path}/purge`, { state }), "once");
    return (reply.json() as { deleted: number }).deleted;
  }

  /** Brings dead jobs back, oldest first, with all their attempts. Returns how many. */
  async respawn(options: { readonly limit?: number; readonly ratePerSecond?: number } = {}): Promise<number> {
    const reply = await this.#send(jsonCall("POST", `${this.#path}/respawn`, toWire(options)), "once");
    return (reply.json() as { respawned: number }).respawned;
  }

  /**
   * Deletes the queue with its policy.
   *
   * @throws ConflictError `queue_not_empty` if it has jobs
   */
  async delete(): Promise<void> {
    await this.#send({ method: "DELETE", path: this.#path }, "safe");
  }

  async #writePolicy(method: "PATCH" | "PUT", change: PolicyChange, condition: Condition): Promise<VersionedPolicy> {
    const headers = conditionHeaders(condition);
    const call = jsonCall(method, `${this.#path}/policy`, toWire(change), { headers });
    return versioned(await this.#send(call, "safe"));
  }

  async #read<T>(rest: string): Promise<T> {
    return fromWire((await this.#send({ method: "GET", path: this.#path + rest }, "safe")).json());
  }

  #send(call: Call, safety: Safety): Promise<Reply> {
    return this.#core.transport.sendRepeated(call, safety);
  }
}

interface ActPage extends ActResult {
  readonly next: string | null;
  readonly waitMs: number;
}

function versioned(reply: Reply): VersionedPolicy {
  return { ...fromWire<Policy>(reply.json()), etag: reply.headers.get("etag") ?? undefined };
}
