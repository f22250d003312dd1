/**
 * The errors of requests.
 *
 * Each error says in {@link TidegateError.applied} whether the request changed something all the same.
 */

/** Whether a change was made: `no`, `yes`, or `unknown`, as the answer was lost or does not say. */
export type Applied = "no" | "yes" | "unknown";

/** The parts of an error. */
export interface ErrorDetails {
  /** The cause in this request, for people. */
  readonly detail: string;
  readonly applied: Applied;
  readonly status?: number | undefined;
  readonly code?: string | undefined;
  readonly field?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly jobId?: string | undefined;
  readonly requestId?: string | undefined;
  readonly cause?: unknown;
}

/** A request that failed. The subclass names the kind of failure. */
export class TidegateError extends Error {
  /** The cause in this request, for people. */
  readonly detail: string;
  /** Whether the change was made. */
  readonly applied: Applied;
  /** The HTTP status; absent if there was no answer. */
  readonly status: number | undefined;
  /** The reason for programs, such as `queue_full`; absent if the server sent no problem document. */
  readonly code: string | undefined;
  /** The parameter, header or field that is invalid, such as `delay`. */
  readonly field: string | undefined;
  /** In so many milliseconds the same request may succeed: the header `Retry-After`. */
  readonly retryAfterMs: number | undefined;
  /** The job that the error is about, if the server names one. */
  readonly jobId: string | undefined;
  /** The id of the request in the logs of the server. */
  readonly requestId: string | undefined;

  constructor(details: ErrorDetails) {
    super(messageOf(details), details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.detail = details.detail;
    this.applied = details.applied;
    this.status = details.status;
    this.code = details.code;
    this.field = details.field;
    this.retryAfterMs = details.retryAfterMs;
    this.jobId = details.jobId;
    this.requestId = details.requestId;
  }
}

/** The API key is unknown, expired or revoked, or does not allow the request: 401 and 403. */
export class AuthError extends TidegateError {}

/** The job, schedule, key or route is not there: 404. */
export class NotFoundError extends TidegateError {}

/** The state of the job or queue does not allow the request: 409, 412, and 422 `idempotency_key_reused`. */
export class ConflictError extends TidegateError {}

/** The queue is full, or a limit is reached: 429. `retryAfterMs` says when to try again. */
export class RateLimitedError extends TidegateError {}

/** The request is not valid: any other 4xx; or the client found the mistake, and `status` is absent. */
export class InvalidRequestError extends TidegateError {}

/** The server failed: 5xx, or the answer is no answer of Tidegate. */
export class ServerError extends TidegateError {}

/** There was no answer. `applied` is `no` if nothing was sent, else `unknown`. */
export class ConnectionError extends TidegateError {}

function messageOf(details: ErrorDetails): string {
  const head = [details.status, details.code, details.field].filter((part) => part !== undefined).join(" ");
  return head === "" ? details.detail : `${head}: ${details.detail}`;
}

/** @internal A mistake that the client finds before it sends something. */
export function invalid(field: string, detail: string): InvalidRequestError {
  return new InvalidRequestError({ detail, field, applied: "no" });
}

/** @internal A problem document of the server. */
export interface ProblemDocument {
  readonly status?: number;
  readonly code?: string;
  readonly detail?: string;
  readonly applied?: Applied | null;
  readonly field?: string | null;
  readonly job?: string | null;
  readonly instance?: string;
}

type ErrorClass = new (details: ErrorDetails) => TidegateError;

const CLASSES: Readonly<Record<number, ErrorClass>> = {
  401: AuthError,
  403: AuthError,
  404: NotFoundError,
  409: ConflictError,
  412: ConflictError,
  429: RateLimitedError,
};

function classOf(status: number, code: string | undefined): ErrorClass {
  if (status === 422 && code === "idempotency_key_reused") {
    return ConflictError;
  }
  return CLASSES[status] ?? (status >= 400 && status < 500 ? InvalidRequestError : ServerError);
}

/**
 * What an error without `applied` says. Tidegate leaves it out if the request changes nothing; another server that
 * answers in its place may not know what became of the request.
 */
function appliedOf(applied: unknown, status: number): Applied {
  if (applied === "no" || applied === "yes" || applied === "unknown") {
    return applied;
  }
  return status >= 500 || status === 408 ? "unknown" : "no";
}

/** @internal The error for a problem document. */
export function problemError(problem: ProblemDocument, status: number, retryAfterMs?: number): TidegateError {
  const code = problem.code;
  const ErrorType = classOf(status, code);
  return new ErrorType({
    status,
    code,
    detail: problem.detail ?? code ?? "the server gave no reason",
    applied: appliedOf(problem.applied, status),
    field: problem.field ?? undefined,
    jobId: problem.job ?? undefined,
    requestId: problem.instance,
    retryAfterMs,
  });
}

/** How much of an answer that is no problem document an error shows. */
const SHOWN_CHARACTERS = 200;

/** @internal The error for an answer that is no problem document, as a proxy sends it. */
export function unexpectedAnswer(status: number, body: string, retryAfterMs?: number): TidegateError {
  const ErrorType = classOf(status, undefined);
  const detail = body === "" ? "the answer is empty" : body.slice(0, SHOWN_CHARACTERS);
  return new ErrorType({ status, detail, applied: "unknown", retryAfterMs });
}

/** Statuses after which a request is repeated. A full queue stays full for long, and 500 is a defect. */
const REPEATED = new Set([408, 502, 503, 504]);

/** @internal Whether the connection or the server failed for a short time, so that a repetition may succeed. */
export function isShortFailure(error: unknown): error is TidegateError {
  return error instanceof ConnectionError || (error instanceof TidegateError && REPEATED.has(error.status ?? 0));
}
