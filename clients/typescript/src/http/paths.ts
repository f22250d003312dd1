/**
 * Paths and parameters of requests, percent-encoded.
 */

import { invalid } from "../errors.js";
import { writeJson } from "../json/exact.js";
import { type JsonObject } from "../wire/names.js";

/** A job of a queue: its id, or its key. */
export type JobRef = string | { readonly id: string } | { readonly key: string };

const NAME = /^[A-Za-z0-9_-]{1,255}$/;

/** Encodes a text as a part of a path or the value of a parameter. */
export function encoded(field: string, text: string): string {
  try {
    return encodeURIComponent(text);
  } catch {
    throw invalid(field, "has half of a surrogate pair, which UTF-8 does not have");
  }
}

/** The path of a queue below the namespace. */
export function queuePath(queue: string): string {
  return `/queues/${checkedName("queue", queue)}`;
}

/** Checks the name of a namespace, a queue or a schedule: 1 to 255 bytes of letters, digits, `-` and `_`. */
export function checkedName(field: string, name: string): string {
  if (typeof name !== "string" || !NAME.test(name)) {
    throw invalid(field, "a name has 1 to 255 letters, digits, - and _");
  }
  return name;
}

/** The path of a job below its queue, with what follows the job, such as `/payload`, and a query if there is one. */
export function jobPath(queue: string, job: JobRef, rest = "", query = ""): string {
  const { part, keyQuery } = jobPart(job);
  const parameters = [keyQuery, query].filter((it) => it !== "").join("&");
  return `${queuePath(queue)}/jobs/${part}${rest}${parameters === "" ? "" : `?${parameters}`}`;
}

function jobPart(job: JobRef): { part: string; keyQuery: string } {
  if (typeof job === "object" && "key" in job) {
    const key = encoded("key", job.key);
    // Many proxies refuse or decode an encoded slash in a path.
    return job.key.includes("/") ? { part: "-", keyQuery: `key=${key}` } : { part: `key:${key}`, keyQuery: "" };
  }
  const id = typeof job === "string" ? job : job.id;
  if (!/^[0-9A-Za-z]+$/.test(id)) {
    throw invalid("id", "the id of a job has letters and digits only; write { key } for a key");
  }
  return { part: id, keyQuery: "" };
}

/** The fields as a query, without the question mark. Objects are written as JSON; absent fields are left out. */
export function queryOf(fields: JsonObject): string {
  const parameters: string[] = [];
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined && value !== null) {
      const text = typeof value === "object" ? (writeJson(value) ?? "") : String(value);
      parameters.push(`${name}=${encoded(name, text)}`);
    }
  }
  return parameters.join("&");
}
