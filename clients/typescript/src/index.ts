/**
 * A client and a worker for Tidegate, a delay queue service over Redis.
 *
 * @packageDocumentation
 */

export { Client } from "./client.js";
export { type Condition } from "./condition.js";
export { type ClientOptions } from "./config.js";
export { type DoneLease, type FailedLease, type QueueChoice, type ReserveOptions } from "./consume.js";
export { Content } from "./content.js";
export {
  type Applied,
  AuthError,
  ConflictError,
  ConnectionError,
  InvalidRequestError,
  NotFoundError,
  RateLimitedError,
  ServerError,
  TidegateError,
} from "./errors.js";
export { type JobRef } from "./http/paths.js";
export { type RepeatLimits } from "./http/repeat.js";
export { type CancelOptions, type JobChange, type JobHandle } from "./job-handle.js";
export { type IntegerMode, JsonText } from "./json/exact.js";
export { type Keys, type NewKey } from "./keys.js";
export { type LeasedJob } from "./leased-job.js";
export { type PageOptions } from "./lists.js";
export { type PublishOptions, type RetryOptions } from "./publish/options.js";
export {
  type BatchJob,
  type BatchOptions,
  type CallOptions,
  type JobResult,
  type WaitOptions,
} from "./publish/publisher.js";
export {
  type ActOptions,
  type ActResult,
  type JobFilter,
  type PolicyChange,
  type Queue,
  type VersionedPolicy,
} from "./queue.js";
export { type Schedule, type ScheduleHandle, type ScheduleJob } from "./schedule.js";
export { VERSION } from "./version.js";
export type {
  CancelledJob,
  ChangedJob,
  CreatedKey,
  HistoryEntry,
  JobDetails,
  JobExplanation,
  JobFact,
  JobState,
  KeyDetails,
  LeaseOutcome,
  Policy,
  PublishedJob,
  QueueCounts,
  RetryPolicy,
  ScheduleDetails,
  Scope,
} from "./wire/answers.js";
export { type DurationText, type Instant } from "./wire/values.js";
export { type Handler, type Middleware, type Schema } from "./worker/handlers.js";
export { type JobEnded, type RequestFailed, type WorkerHooks } from "./worker/hooks.js";
export { type Job } from "./worker/job.js";
export { type AbortReason, Dead, type Delay, JobAborted, RetryIn, Snooze } from "./worker/outcomes.js";
export { Worker, type WorkerOptions } from "./worker/worker.js";
