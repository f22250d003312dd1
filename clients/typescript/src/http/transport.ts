/**
 * Requests and answers over HTTP.
 */

import { ConnectionError, invalid, problemError, type ProblemDocument, ServerError, unexpectedAnswer } from "../errors.js";
import { type IntegerMode, readJson, writeJson } from "../json/exact.js";
import { TIMER_MAX_MS } from "../timers.js";
import { USER_AGENT } from "../version.js";
import { repeated, type RepeatLimits, type Safety, type Sleep } from "./repeat.js";

/** A request. The path follows the namespace. */
export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | Uint8Array | undefined;
  /** How long the server may wait before it answers, in addition to the time limit. */
  readonly waitMs?: number | undefined;
  /** Another time limit than that of the client. */
  readonly limitMs?: number | undefined;
  /** Ends the request as long as its answer has not begun. */
  readonly signal?: AbortSignal | undefined;
}

export interface TransportOptions {
  /** The URL up to the namespace. */
  readonly base: string;
  readonly key: string;
  readonly timeLimitMs: number;
  readonly limits: RepeatLimits;
  readonly integers: IntegerMode;
  readonly fetch: typeof globalThis.fetch;
  readonly sleep?: Sleep | undefined;
}

/** A success. */
export class Reply {
  constructor(
    readonly status: number,
    readonly headers: Headers,
    readonly bytes: Uint8Array,
    private readonly integers: IntegerMode,
  ) {}

  /** The body as a text. */
  text(): string {
    return Buffer.from(this.bytes.buffer, this.bytes.byteOffset, this.bytes.byteLength).toString("utf8");
  }

  /** The body, read as JSON. */
  json(): unknown {
    try {
      return readJson(this.text(), this.integers);
    } catch (cause) {
      throw new ServerError({ status: this.status, detail: "the answer is not JSON", applied: "unknown", cause });
    }
  }
}

/** Sends requests with the key of the client. The connections are those of `fetch`, which keeps them open. */
export class Transport {
  readonly integers: IntegerMode;
  readonly timeLimitMs: number;
  readonly #options: TransportOptions;
  readonly #authorization: string;

  constructor(options: TransportOptions) {
    this.integers = options.integers;
    this.timeLimitMs = options.timeLimitMs;
    this.#options = options;
    this.#authorization = `Bearer ${options.key}`;
  }

  /** Sends a request, and repeats it after errors as the safety allows. */
  sendRepeated(call: Call, safety: Safety): Promise<Reply> {
    return this.repeated(safety, call.method === "GET", () => this.send(call));
  }

  /** Makes attempts by the limits of the client. */
  repeated<T>(safety: Safety, isRead: boolean, attempt: () => Promise<T>): Promise<T> {
    const { limits, sleep } = this.#options;
    return repeated({ safety, isRead, limits, sleep }, attempt);
  }

  /** Sends a request once. An answer other than a success is an error. */
  async send(call: Call): Promise<Reply> {
    const reply = await this.#exchange(call);
    if (reply.status >= 200 && reply.status < 300) {
      return reply;
    }
    throw rejection(reply);
  }

  async #exchange(call: Call): Promise<Reply> {
    call.signal?.throwIfAborted();
    const headers = this.#headers(call);
    const limitMs = (call.limitMs ?? this.timeLimitMs) + (call.waitMs ?? 0);
    const cutter = new AbortController();
    const timer = setTimeout(() => cutter.abort(), Math.min(limitMs, TIMER_MAX_MS));
    const cut = (): void => cutter.abort();
    call.signal?.addEventListener("abort", cut, { once: true });
    let isAnswering = false;
    try {
      const { base, fetch } = this.#options;
      const init = { method: call.method, headers, body: call.body ?? null, redirect: "manual" as const };
      const response = await fetch(base + call.path, { ...init, signal: cutter.signal });
      isAnswering = true;
      // From now on the answer is read, however the caller decides: it may have jobs.
      call.signal?.removeEventListener("abort", cut);
      const bytes = new Uint8Array(await response.arrayBuffer());
      return new Reply(response.status, response.headers, bytes, this.integers);
    } catch (cause) {
      if (!isAnswering) {
        call.signal?.throwIfAborted();
      }
      throw cutter.signal.aborted ? timedOut(limitMs, cause) : connectionError(cause);
    } finally {
      clearTimeout(timer);
      call.signal?.removeEventListener("abort", cut);
    }
  }

  #headers(call: Call): Headers {
    const headers = new Headers({ authorization: this.#authorization, "user-agent": USER_AGENT });
    for (const [name, value] of Object.entries(call.headers ?? {})) {
      try {
        headers.set(name, value);
      } catch {
        throw invalid(name, "has characters that no HTTP header may have");
      }
    }
    return headers;
  }
}

/** A request with a body of JSON. */
export function jsonCall(method: Call["method"], path: string, body: unknown, more: Partial<Call> = {}): Call {
  return jsonTextCall(method, path, writeJson(body) ?? "null", more);
}

/** A request whose body is JSON text already. */
export function jsonTextCall(method: Call["method"], path: string, body: string, more: Partial<Call> = {}): Call {
  return { ...more, method, path, body, headers: { ...more.headers, "content-type": "application/json" } };
}

function rejection(reply: Reply): Error {
  const retryAfterMs = retryAfter(reply.headers.get("retry-after"));
  const text = reply.text();
  const problem = problemOf(text);
  return problem === undefined
    ? unexpectedAnswer(reply.status, text, retryAfterMs)
    : problemError(problem, reply.status, retryAfterMs);
}

function problemOf(text: string): ProblemDocument | undefined {
  try {
    const parsed = JSON.parse(text) as ProblemDocument | null;
    return typeof parsed?.code === "string" ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/** Reads the header `Retry-After`: seconds, or a date. */
export function retryAfter(header: string | null): number | undefined {
  if (header === null || header.trim() === "") {
    return undefined;
  }
  const seconds = Number(header);
  const ms = Number.isNaN(seconds) ? Date.parse(header) - Date.now() : seconds * 1000;
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

function timedOut(limitMs: number, cause: unknown): ConnectionError {
  return new ConnectionError({ detail: `no answer within ${limitMs} ms`, applied: "unknown", cause });
}

function connectionError(error: unknown): ConnectionError {
  const cause = (error as { cause?: unknown } | undefined)?.cause ?? error;
  if (isNotSent(cause)) {
    return new ConnectionError({ detail: `failed to connect: ${textOf(cause)}`, applied: "no", cause });
  }
  return new ConnectionError({ detail: `the connection broke: ${textOf(cause)}`, applied: "unknown", cause });
}

const NOT_SENT_CODES = new Set([
  "ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "EHOSTDOWN", "ENETUNREACH", "EADDRNOTAVAIL",
  "UND_ERR_CONNECT_TIMEOUT",
]);
/**
 * Codes of OpenSSL and of Node about the certificate of the server: the request follows its check. Other errors of TLS
 * may come later.
 */
const TLS_CODE = /CERT|^ERR_TLS_|UNABLE_TO_|HOSTNAME_MISMATCH/;

function isNotSent(cause: unknown): boolean {
  // A host with several addresses, none of which can be reached.
  if (cause instanceof AggregateError && cause.errors.length > 0) {
    return cause.errors.every(isNotSent);
  }
  const { code, syscall } = (cause ?? {}) as { code?: unknown; syscall?: unknown };
  if (syscall === "connect" || syscall === "getaddrinfo") {
    return true;
  }
  return typeof code === "string" && (NOT_SENT_CODES.has(code) || TLS_CODE.test(code));
}

function textOf(cause: unknown): string {
  const { code, message } = (cause ?? {}) as { code?: unknown; message?: unknown };
  return [message, code].find((text) => typeof text === "string" && text !== "")?.toString() ?? String(cause);
}
