/**
 * Handlers, and the middleware around them.
 */

import { type Job } from "./job.js";
import { Dead, errorText } from "./outcomes.js";

/**
 * Runs a job. The job is done when it returns; the value, if any, is the result: a value of JSON, bytes, a `Content` or
 * a `JsonText`. An error means a retry; see `RetryIn`, `Dead` and `Snooze`.
 */
export type Handler<T = unknown> = (job: Job<T>) => unknown;

/** Wraps the handlers of a worker: calls `next`, and returns its value or another one. */
export type Middleware = (job: Job, next: () => Promise<unknown>) => unknown;

/** Checks a payload, such as a schema of Zod. A payload that it refuses makes the job dead. */
export interface Schema<T> {
  parse(payload: unknown): T;
}

/** @internal A handler with its schema and middleware. */
export type WrappedHandler = (job: Job) => Promise<unknown>;

/** @internal */
export function withSchema<T>(schema: Schema<T>, handler: Handler<T>): Handler {
  return (job) => {
    job.setParsed(parsed(schema, job.payload));
    return handler(job as Job<T>);
  };
}

function parsed<T>(schema: Schema<T>, payload: unknown): T {
  try {
    return schema.parse(payload);
  } catch (error) {
    // Another attempt has the same payload.
    throw new Dead(new Error(`the payload is not valid: ${errorText(error)}`, { cause: error }));
  }
}

/** @internal The first middleware is the outermost one. */
export function wrap(handler: Handler, middleware: readonly Middleware[]): WrappedHandler {
  const innermost: WrappedHandler = async (job) => handler(job);
  return middleware.reduceRight<WrappedHandler>(
    (next, layer) => async (job) => layer(job, () => next(job)),
    innermost,
  );
}
