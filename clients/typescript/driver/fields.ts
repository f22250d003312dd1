/**
 * Converts between the fields of the protocol and the arguments and values of the client.
 */

import { Content, type JobRef, type LeasedJob, type PublishOptions } from "../dist/index.js";
import type { Fields } from "./commands.js";

/** The user's own values, in which no name is changed. */
const OPAQUE = new Set(["payload", "result", "attributes"]);

const toCamel = (name: string): string => name.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
const toSnake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** The options of a publish or of a change. */
export function optionsOf(fields: Fields | undefined): PublishOptions {
  const options: Fields = {};
  for (const [name, value] of Object.entries(fields ?? {})) {
    if (name === "run_at_ms") {
      options["runAt"] = typeof value === "number" ? new Date(value) : value;
    } else {
      options[toCamel(name)] = value;
    }
  }
  return options;
}

/** A value of the client with the names and texts of the server. */
export function asServer(value: unknown): unknown {
  if (value instanceof Date) {
    return value.toISOString();
  }
  if (Array.isArray(value)) {
    return value.map(asServer);
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  const entries = Object.entries(value).map(([name, part]) => [
    toSnake(name),
    OPAQUE.has(name) ? part : asServer(part),
  ]);
  return Object.fromEntries(entries) as unknown;
}

/** The payload of a command: a value of JSON, or bytes. */
export function payloadOf(fields: Fields): unknown {
  const base64 = fields["payload_base64"];
  return typeof base64 === "string" ? new Content(Buffer.from(base64, "base64"), String(fields["content_type"])) : fields["payload"];
}

/** The payload and the options of a publish. */
export function publishOf(fields: Fields): PublishOptions & { payload: unknown } {
  const attributes = fields["attributes"] as Record<string, string> | undefined;
  const options = optionsOf(fields["options"] as Fields | undefined);
  return { ...options, ...(attributes !== undefined && { attributes }), payload: payloadOf(fields) };
}

/** A payload or result of the server. */
export function contentFields(name: "payload" | "result", content: Content): Fields {
  return content.isJson
    ? { [name]: content.json() }
    : { [`${name}_base64`]: Buffer.from(content.bytes).toString("base64"), content_type: content.contentType };
}

export function jobRef(fields: Fields): JobRef {
  return fields["job"] as JobRef;
}

export function leasedFields(job: LeasedJob): Fields {
  const { id, queue, lease, attempt, failures, contentType, attributes, key, group } = job;
  const payload = job.isJson
    ? { payload: job.payload }
    : { payload_base64: Buffer.from(job.payloadBytes).toString("base64") };
  return { id, queue, lease, attempt, failures, ...payload, content_type: contentType, attributes, key, group };
}
