/**
 * The requests that publish jobs.
 */

import { bodyOf, membersOf } from "../content.js";
import { problemError, type ProblemDocument, ServerError, type TidegateError } from "../errors.js";
import { encoded, queryOf, queuePath } from "../http/paths.js";
import { type Call, jsonTextCall, type Reply } from "../http/transport.js";
import { writeJson } from "../json/exact.js";
import { type PublishedJob } from "../wire/answers.js";
import { fromWire, type JsonObject } from "../wire/names.js";
import { durationText } from "../wire/values.js";
import { type JobToSend } from "./options.js";

/** The request that publishes one job. */
export function singleCall(job: JobToSend): Call {
  return callOf(job, "/jobs", job.fields);
}

/** The request that publishes one job, and waits so long for its result. */
export function waitingCall(job: JobToSend, waitMs: number, signal: AbortSignal | undefined): Call {
  const fields = { ...job.fields, wait: durationText("wait", waitMs) };
  return { ...callOf(job, "/jobs/call", fields), waitMs, signal };
}

function callOf(job: JobToSend, route: string, fields: JsonObject): Call {
  const { body, contentType } = bodyOf(job.content);
  const headers: Record<string, string> = { "content-type": contentType };
  if (job.idempotencyKey !== undefined) {
    headers["idempotency-key"] = headerText(job.idempotencyKey);
  }
  for (const [name, value] of Object.entries(job.attributes)) {
    headers[`job-attr-${name}`] = headerText(value);
  }
  const traceParent = job.attributes["traceparent"];
  if (traceParent !== undefined) {
    headers["traceparent"] = traceParent;
  }
  const query = queryOf(fields);
  const path = `${queuePath(job.queue)}${route}${query === "" ? "" : `?${query}`}`;
  return { method: "POST", path, headers, body };
}

/** The server reads headers as UTF-8; `fetch` sends each character of a header as one byte. */
function headerText(text: string): string {
  encoded("header", text);
  return Buffer.from(text, "utf8").toString("latin1");
}

/** A job as an element of a batch. */
export function batchItem(job: JobToSend): string {
  const fields = {
    ...job.fields,
    idempotency_key: job.idempotencyKey,
    attributes: Object.keys(job.attributes).length === 0 ? undefined : job.attributes,
  };
  // Not JSON.stringify, which refuses a bigint.
  const options = (writeJson(fields) as string).slice(1, -1);
  const payload = membersOf("payload", job.content);
  return options === "" ? `{${payload}}` : `{${payload},${options}}`;
}

/** The request that publishes several jobs, written as elements of a batch. */
export function batchCall(queue: string, items: readonly string[], atomic = false): Call {
  const body = `{${atomic ? '"atomic":true,' : ""}"jobs":[${items.join(",")}]}`;
  return jsonTextCall("POST", `${queuePath(queue)}/jobs/batch`, body);
}

/** Reads the answer to the publish of one job. */
export function publishedJob(reply: Reply): PublishedJob {
  return fromWire(reply.json());
}

interface BatchResult {
  readonly problem?: ProblemDocument;
}

/** Reads the answer to a batch: a job or an error for each, in order. */
export function batchResults(reply: Reply): (PublishedJob | TidegateError)[] {
  const { results } = (reply.json() ?? {}) as { results?: unknown };
  if (!Array.isArray(results)) {
    throw new ServerError({ status: reply.status, detail: "the answer has no results", applied: "unknown" });
  }
  return (results as BatchResult[]).map((result) =>
    result.problem === undefined
      ? fromWire<PublishedJob>(result)
      : problemError(result.problem, result.problem.status ?? 500),
  );
}
