/**
 * The settings of a client.
 */

import { invalid } from "./errors.js";
import { DEFAULT_REPEAT_LIMITS, type RepeatLimits } from "./http/repeat.js";
import { type TransportOptions } from "./http/transport.js";
import { type IntegerMode } from "./json/exact.js";

export interface ClientOptions {
  /** The URL of the server, such as `https://tidegate.example.com`. Default: the variable `TIDEGATE_URL`. */
  readonly url?: string;
  /** The API key, `tg_…`. Default: the variable `TIDEGATE_KEY`. */
  readonly key?: string;
  /** The namespace. Default: the variable `TIDEGATE_NAMESPACE`. */
  readonly namespace?: string;
  /** How long each attempt of a request may take, in addition to its wait. Default: 10,000. */
  readonly timeLimitMs?: number;
  /** How often requests are repeated after errors. */
  readonly repeat?: Partial<RepeatLimits>;
  /**
   * How integers beyond 2^53 in payloads and results are read: `number` (the default) rounds them as `JSON.parse` does,
   * `bigint` reads these as `bigint` and all others as `number`.
   */
  readonly integers?: IntegerMode;
  /** Another `fetch`, such as a `fetch` for a proxy, or the fake of `tidegate/testing`. */
  readonly fetch?: typeof globalThis.fetch;
}

const TIME_LIMIT_MS = 10_000;
const NAMESPACE = /^[A-Za-z0-9_-]{1,255}$/;
const HEADER_TEXT = /^[\x21-\x7e]+$/;

/** @internal */
export function settingsOf(options: ClientOptions): TransportOptions {
  const namespace = setting(options.namespace, "TIDEGATE_NAMESPACE", "namespace");
  if (!NAMESPACE.test(namespace)) {
    throw invalid("namespace", "a namespace has 1 to 255 letters, digits, - and _");
  }
  const key = setting(options.key, "TIDEGATE_KEY", "key").trim();
  if (!HEADER_TEXT.test(key)) {
    throw invalid("key", "has characters that no API key has");
  }
  const timeLimitMs = options.timeLimitMs ?? TIME_LIMIT_MS;
  if (!(timeLimitMs > 0)) {
    throw invalid("timeLimitMs", `is a number of milliseconds above 0, not ${String(timeLimitMs)}`);
  }
  return {
    base: `${baseUrl(setting(options.url, "TIDEGATE_URL", "url"))}/v1/${namespace}`,
    key,
    timeLimitMs,
    limits: { ...DEFAULT_REPEAT_LIMITS, ...options.repeat },
    integers: options.integers ?? "number",
    // By its name at the time of the call, so that a program may replace it.
    fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
  };
}

function setting(value: string | undefined, variable: string, name: string): string {
  const found = value ?? process.env[variable];
  if (found === undefined || found === "") {
    throw invalid(name, `is missing: give it, or set ${variable}`);
  }
  return found;
}

/** The URL is not shown in errors: it may have a password. */
function baseUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isServer = url !== undefined && (url.protocol === "http:" || url.protocol === "https:");
  if (!isServer || url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    throw invalid("url", "names no server: write it like https://tidegate.example.com, without a user, query or fragment");
  }
  return url.href.replace(/\/+$/, "");
}
