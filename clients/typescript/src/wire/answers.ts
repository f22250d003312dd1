/**
 * The answers of the server. Instants are `Date`; durations are milliseconds in fields that end in `Ms`.
 */

/** The state of a job. */
export type JobState = "delayed" | "ready" | "leased" | "dead" | "done";

/** The job that a publish created or found. */
export interface PublishedJob {
  readonly id: string;
  readonly queue: string;
  readonly key?: string;
  /** `created`; or, if a job had the key already, `exists`, `replaced`, `rerun` or `revived`. */
  readonly outcome: "created" | "exists" | "replaced" | "rerun" | "revived";
  readonly state: JobState;
  readonly runAt?: Date;
  /** The copies of the stored job. */
  readonly durability: string;
  /** Whether an earlier publish with the same idempotency key has stored the job. */
  readonly replayed?: boolean;
}

/** An attempt that did not succeed. */
export interface HistoryEntry {
  readonly attempt: number;
  readonly endedAt: Date;
  /** Absent if the worker was lost. */
  readonly error?: string;
}

/** All about a job except its payload. Fields that do not apply to its state are absent. */
export interface JobDetails {
  readonly id: string;
  readonly queue: string;
  readonly key?: string;
  readonly group?: string;
  readonly state: JobState;
  readonly priority?: number;
  readonly createdAt: Date;
  readonly runAt?: Date;
  readonly doneAt?: Date;
  readonly leaseUntil?: Date;
  /** The number of the last attempt; 0 if there was none. */
  readonly attempt: number;
  readonly failures: number;
  /** How often a worker was lost while it held the job. */
  readonly losses: number;
  readonly maxAttempts: number;
  readonly contentType?: string;
  readonly payloadBytes: number;
  readonly resultBytes?: number;
  readonly attributes?: Readonly<Record<string, string>>;
  /** Why it is dead. */
  readonly reason?: "failures" | "permanent" | "losses" | "unreadable";
  /** The last attempts that did not succeed, oldest first. */
  readonly history?: readonly HistoryEntry[];
}

/** A fact about a job. */
export interface JobFact {
  readonly code: string;
  readonly text: string;
  readonly at?: Date;
  readonly count?: number;
  readonly worker?: string;
}

/** Why a job is where it is. */
export interface JobExplanation {
  readonly id: string;
  readonly queue: string;
  readonly key?: string;
  readonly state: JobState;
  /** The cause for programs, such as `paused` or `not_due`. */
  readonly cause: string;
  /** The cause in one sentence, and the remedy if there is one. */
  readonly summary: string;
  readonly facts: readonly JobFact[];
}

/** A job that was changed or promoted. */
export interface ChangedJob {
  readonly id: string;
  readonly key?: string;
  readonly outcome: "changed" | "promoted";
  readonly state?: JobState;
  readonly runAt: Date;
}

/** The answer to a cancel. */
export interface CancelledJob {
  readonly id: string;
  readonly outcome: "cancelled" | "cancel_requested" | "revoked" | "already_done";
  /** The state in which the job was cancelled. */
  readonly was?: JobState;
}

/** A queue, and how many jobs it has by state. */
export interface QueueCounts {
  readonly queue: string;
  readonly jobs: Readonly<Record<JobState, number>>;
  readonly paused: boolean;
  readonly pausedUntil?: Date;
  readonly closed: boolean;
}

/** A complete retry policy. */
export interface RetryPolicy {
  readonly maxAttempts: number;
  readonly jitter: number;
  readonly delaysMs?: readonly number[];
  readonly firstMs?: number;
  readonly factor?: number;
  readonly maxMs?: number;
}

/** The policy of a queue, complete. `null` is no limit. */
export interface Policy {
  readonly leaseMs: number;
  readonly retry: RetryPolicy;
  readonly retainMs: number;
  readonly paused: boolean;
  readonly pausedUntil: Date | null;
  readonly closed: boolean;
  readonly maxJobs: number | null;
  readonly maxRunning: number | null;
  readonly groups: { readonly maxRunning: number | null };
  readonly rate: { readonly jobs: number; readonly perMs: number } | null;
  readonly limit: string | null;
  readonly keepDeadMs: number | null;
}

/** A schedule as the server stores it. */
export interface ScheduleDetails {
  readonly name: string;
  /** Changes with every change of the schedule. */
  readonly revision: string;
  readonly config: Readonly<Record<string, unknown>>;
  /** The next tick; `null` if there is none. */
  readonly nextRun: Date | null;
}

/** What an API key allows. */
export type Scope = "publish" | "consume" | "read" | "admin";

/** An API key without its secret. */
export interface KeyDetails {
  readonly id: string;
  readonly namespace: string;
  readonly pool: string;
  readonly scopes: readonly Scope[];
  readonly description: string;
  readonly createdAt: Date;
  readonly expiresAt?: Date;
}

/** A new API key. Only this answer has its secret. */
export interface CreatedKey {
  readonly outcome: string;
  readonly secret: string;
  readonly key: KeyDetails;
}

/** A page of a list. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly next: string | null;
}

/** The outcome of an ack, a fail, a touch or a release for one lease. */
export interface LeaseOutcome {
  /**
   * `done`, `retry`, `dead`, `extended`, `released`, `cancelled` or `rerun`; `lost` if another worker holds the job or
   * its lease has expired; `gone` if the job is not there any more, as after a repeated ack.
   */
  readonly outcome: "done" | "retry" | "dead" | "extended" | "released" | "cancelled" | "rerun" | "lost" | "gone";
  /** Of `retry`: when the job is due again. */
  readonly runAt?: Date;
  /** Of `extended`: the end of the lease. */
  readonly leaseUntil?: Date;
  /** Of `extended`: the producer has requested that the job be cancelled. */
  readonly cancelRequested?: boolean;
  /** Of `done`: there was no memory for the result. */
  readonly resultDropped?: boolean;
}
