/**
 * The options of a publish, and their form on the wire.
 */

import { randomUUID } from "node:crypto";

import { encodeContent, type Encoded } from "../content.js";
import { invalid } from "../errors.js";
import { type Safety } from "../http/repeat.js";
import { injectTraceParent } from "../traces.js";
import { type JsonObject, toWire } from "../wire/names.js";
import { type DurationText, type Instant, optionalDuration, optionalInstant } from "../wire/values.js";

/**
 * When failed attempts are retried: `delays`, or `every`, or `first` with `factor` and `max`. Durations are texts.
 */
export interface RetryOptions {
  /** The delays before each retry, 1 to 16; the last one repeats. */
  readonly delays?: readonly DurationText[];
  /** The same delay before each retry. */
  readonly every?: DurationText;
  /** The first delay, which grows by `factor` up to `max`. */
  readonly first?: DurationText;
  /** From 1 to 1,000. Default: 2. */
  readonly factor?: number;
  /** Default: 1 hour. */
  readonly max?: DurationText;
  /** The random part of each delay, 0 to 1. Default: 0.1. */
  readonly jitter?: number;
  /** After so many failures the job is dead: 1 to 4,095. Default: 10. */
  readonly maxAttempts?: number;
}

/** The options of a publish. Durations are numbers of milliseconds. */
export interface PublishOptions {
  /** The job is due after this time. Not together with `runAt`. */
  readonly delayMs?: number;
  /** The job is due at this instant; the past means now. */
  readonly runAt?: Instant;
  /** A name of the job that is unique in its queue: 1 to 255 bytes. */
  readonly key?: string;
  /** The effect if a job has the key already. Default: `keep`. */
  readonly ifExists?: "keep" | "replace" | "reject";
  /** The job, its key and its result are kept so long after it is done: up to 7 days. */
  readonly retainMs?: number;
  /** The length of leases of this job: 100 ms to 24 h. */
  readonly leaseMs?: number;
  /** After so many failures the job is dead. */
  readonly maxAttempts?: number;
  /** When failed attempts are retried. */
  readonly retry?: RetryOptions;
  /** The job is dropped if no worker has started it so long after it was due. */
  readonly startWithinMs?: number;
  /** 0 (the default) to 4; higher ones are delivered first. */
  readonly priority?: number;
  /** The group of the job, such as its tenant: 1 to 128 bytes. Groups take turns. */
  readonly group?: string;
  /** The copies that must exist before the publish is answered: `memory`, `fsync`, `replica:1`, `fsync+replica:1`. */
  readonly durability?: string;
  /** A publish with the same key within 10 minutes returns the job of the first one. */
  readonly idempotencyKey?: string;
  /** `false`: a publish without a key gets no random `Idempotency-Key`, and is not repeated if it may be stored. */
  readonly idempotent?: boolean;
  /** The most deliveries, instead of `maxAttempts`, `retry` and `startWithinMs`. */
  readonly maxDeliveries?: number;
  /** With `maxDeliveries`: the job is deleted so long after its publish. */
  readonly ttlMs?: number;
  /** Texts that travel with the job: up to 32, names of lower-case letters, digits, `-`, `_` and `.`. */
  readonly attributes?: Readonly<Record<string, string>>;
  /** The content type of the payload. Default: `application/octet-stream` for bytes, else `application/json`. */
  readonly contentType?: string;
}

/** @internal A job that is ready to be sent. */
export interface JobToSend {
  readonly queue: string;
  readonly content: Encoded;
  readonly attributes: Readonly<Record<string, string>>;
  /** The options by their names on the wire, without the idempotency key. */
  readonly fields: JsonObject;
  readonly idempotencyKey: string | undefined;
  readonly safety: Safety;
}

/** The name of the attribute with the span of the producer. */
const TRACE_PARENT = "traceparent";

/** @internal Reads the options of a publish. Invalid options throw. */
export function jobToSend(queue: string, payload: unknown, options: PublishOptions): JobToSend {
  const content = encodeContent("payload", payload, options.contentType);
  const idempotencyKey = idempotencyKeyOf(options);
  const isSafe = options.key !== undefined || idempotencyKey !== undefined;
  return {
    queue,
    content,
    attributes: attributesOf(options),
    fields: fieldsOf(options),
    idempotencyKey,
    safety: isSafe ? "safe" : "once",
  };
}

function fieldsOf(options: PublishOptions): JsonObject {
  return {
    delay: optionalDuration("delay", options.delayMs),
    run_at: optionalInstant("run_at", options.runAt),
    key: options.key,
    if_exists: options.ifExists,
    retain: optionalDuration("retain", options.retainMs),
    lease: optionalDuration("lease", options.leaseMs),
    max_attempts: options.maxAttempts,
    retry: toWire(options.retry),
    start_within: optionalDuration("start_within", options.startWithinMs),
    priority: options.priority,
    group: options.group,
    durability: options.durability,
    max_deliveries: options.maxDeliveries,
    ttl: optionalDuration("ttl", options.ttlMs),
  };
}

/**
 * A publish with a key needs none, except with `reject`: a repetition would find the job of the first request and be
 * rejected.
 */
function idempotencyKeyOf(options: PublishOptions): string | undefined {
  if (options.idempotencyKey !== undefined || options.idempotent === false) {
    return options.idempotencyKey;
  }
  const needsNone = options.key !== undefined && options.ifExists !== "reject";
  return needsNone ? undefined : randomUUID();
}

function attributesOf(options: PublishOptions): Readonly<Record<string, string>> {
  const attributes = options.attributes ?? {};
  for (const [name, value] of Object.entries(attributes)) {
    checkAttribute(name, value);
  }
  const traceParent = TRACE_PARENT in attributes ? undefined : injectTraceParent();
  return traceParent === undefined ? attributes : { [TRACE_PARENT]: traceParent, ...attributes };
}

const ATTRIBUTE_NAME = /^[a-z0-9_.-]{1,64}$/;
const CONTROL = /[\u0000-\u001f\u007f]/;

/** Attributes travel as headers or in JSON; a header would lose spaces at its ends without an error. */
function checkAttribute(name: string, value: string): void {
  if (!ATTRIBUTE_NAME.test(name)) {
    throw invalid("attributes", `${JSON.stringify(name)}: a name has 1 to 64 lower-case letters, digits, -, _ and .`);
  }
  if (typeof value !== "string" || CONTROL.test(value) || value.trim() !== value) {
    throw invalid("attributes", `${name}: a value is a text without control characters and spaces at its ends`);
  }
}
