/**
 * Reports the ends of jobs, many in one request.
 *
 * If a reserve is sent anyway, the ends travel with it; else they are sent on their own. A report that cannot be sent is
 * repeated until its lease has ended.
 */

import { ackItem, failItem, outcomesOf, releaseBody } from "../consume.js";
import { AuthError, ServerError, TidegateError } from "../errors.js";
import { RepeatDelays } from "../http/repeat.js";
import { jsonTextCall, type Transport } from "../http/transport.js";
import { type LeaseOutcome } from "../wire/answers.js";
import { optionalDuration } from "../wire/values.js";
import { type HookCalls } from "./hooks.js";
import { type HeldLease } from "./lease-table.js";
import { errorText, type RunEnd } from "./outcomes.js";
import { within } from "./within.js";

type ReportKind = "ack" | "fail" | "release";

/** The end of a job, ready to be sent. */
export interface Report {
  readonly kind: ReportKind;
  readonly jobId: string;
  readonly lease: string;
  /** An element of the list of an ack or a fail. */
  readonly item: string;
  readonly delayMs: number | undefined;
  /** After that the report is useless. */
  readonly expiresAt: number;
  /** Whether it was sent on its own. Of a reserve that was cut it is not known whether the server has read it. */
  wasSent: boolean;
  /** Whether a request with it was refused as a whole: it is sent by itself. */
  isAlone: boolean;
  /** Whether it may travel with a reserve. */
  mayTravel: boolean;
}

/** The most reports, and characters, that travel with a reserve or in one request. */
const REPORTS_MAX = 500;
const SIZE_MAX = 1 << 20;
/** The most requests at a time. */
const REQUESTS_MAX = 8;
/** If so many reports wait, no further jobs are reserved. */
const WAITING_MAX = 2_000;
/** Statuses of a request whose content is refused. */
const REFUSED = new Set([400, 413, 415, 422]);
const FIRST_DELAY_MS = 50;
const LONGEST_DELAY_MS = 1_000;
/** The shortest time that a request may take. */
const ANSWER_LIMIT_MIN_MS = 200;

export class Reports {
  readonly #transport: Transport;
  readonly #hooks: HookCalls;
  readonly #delays = RepeatDelays.endless(FIRST_DELAY_MS, LONGEST_DELAY_MS);
  #waiting: Report[] = [];
  /** How many reports are in requests of their own. */
  #sending = 0;
  #timer: NodeJS.Timeout | undefined;
  #isPaused = false;
  #isClosed = false;
  #whenEmpty: (() => void)[] = [];

  constructor(transport: Transport, hooks: HookCalls) {
    this.#transport = transport;
    this.#hooks = hooks;
  }

  /** Whether too many reports wait: the server does not accept them, or too slowly. */
  get isFull(): boolean {
    return this.#waiting.length >= WAITING_MAX;
  }

  /** Adds the end of a job. It is sent with the next request. */
  add(held: HeldLease, end: RunEnd): void {
    this.#waiting.push(reportOf(held, end));
  }

  /** Takes the reports that travel with a reserve. */
  takeForReserve(): Report[] {
    if (this.#waiting.length === 0) {
      return [];
    }
    return this.#take((report) => report.kind !== "release" && report.mayTravel && !report.isAlone);
  }

  /** The request with these reports failed: they are sent again. */
  putBack(reports: readonly Report[], error: unknown, mayTravel = true): void {
    for (const report of reports) {
      report.isAlone ||= isRefused(error);
      report.mayTravel &&= mayTravel;
    }
    this.#waiting.unshift(...reports);
  }

  /** The server has these reports. */
  confirm(reports: readonly Report[], outcomes: readonly LeaseOutcome[]): void {
    if (this.#hooks.wantsReports) {
      reports.forEach((report, index) => {
        const outcome = outcomes[index];
        if (outcome !== undefined) {
          this.#hooks.reported(report.jobId, outcome);
        }
      });
    }
    // A failure that is reported twice is `lost` the second time.
    const lost = outcomes.filter((it, index) => it.outcome === "lost" && reports[index]?.kind === "ack").length;
    if (lost > 0) {
      this.#hooks.warning(`the leases of ${lost} jobs had ended before their ends were reported; these jobs run again`);
    }
  }

  /** Sends the reports that wait, after at most so long. Those of a request in flight are followed by the next ones. */
  flush(afterMs = 0): void {
    if (this.#waiting.length === 0 || this.#isPaused || this.#isClosed || this.#sending > 0) {
      return;
    }
    if (afterMs === 0) {
      this.#clearTimer();
      void this.#sendWaiting();
    } else {
      this.#timer ??= setTimeout(() => {
        this.#timer = undefined;
        this.flush();
      }, afterMs);
    }
  }

  /** Sends all reports, for up to so long. Returns how many are not confirmed. */
  async drain(limitMs: number): Promise<number> {
    // A pause after an error may be longer than the limit.
    this.#clearTimer();
    this.#isPaused = false;
    this.flush();
    if (this.#waiting.length > 0 || this.#sending > 0) {
      await within(limitMs, new Promise<void>((resolve) => this.#whenEmpty.push(resolve)));
    }
    this.#clearTimer();
    this.#isClosed = true;
    return this.#waiting.length + this.#sending;
  }

  #clearTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Takes the first reports that may travel together, up to the limits. */
  #take(matches: (report: Report) => boolean): Report[] {
    const taken: Report[] = [];
    const left: Report[] = [];
    let size = 0;
    for (const report of this.#waiting) {
      const isFull = taken.length >= REPORTS_MAX || (taken.length > 0 && size + report.item.length > SIZE_MAX);
      if (isFull || !matches(report)) {
        left.push(report);
      } else {
        taken.push(report);
        size += report.item.length;
      }
    }
    this.#waiting = left;
    return taken;
  }

  async #sendWaiting(): Promise<void> {
    this.#dropExpired();
    const batches = this.#batches();
    const count = batches.reduce((sum, batch) => sum + batch.length, 0);
    this.#sending += count;
    const pauses = await Promise.all(batches.map((batch) => this.#send(batch)));
    this.#sending -= count;
    const pauseMs = Math.max(0, ...pauses);
    if (pauseMs > 0) {
      this.#pause(pauseMs);
    } else {
      this.#delays.reset();
    }
    this.flush();
    this.#notifyIfEmpty();
  }

  #notifyIfEmpty(): void {
    if (this.#waiting.length === 0 && this.#sending === 0) {
      this.#whenEmpty.splice(0).forEach((resolve) => resolve());
    }
  }

  #pause(ms: number): void {
    if (this.#isClosed) {
      return;
    }
    this.#isPaused = true;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#isPaused = false;
      this.flush();
      this.#notifyIfEmpty();
    }, ms);
  }

  #dropExpired(): void {
    const now = performance.now();
    const isUseless = (report: Report): boolean => report.wasSent && report.expiresAt <= now;
    const useless = this.#waiting.filter(isUseless).length;
    if (useless > 0) {
      this.#waiting = this.#waiting.filter((report) => !isUseless(report));
      this.#hooks.warning(`failed to report ${useless} jobs before their leases ended; they may run again`);
    }
  }

  /** The requests to send: one for all acks, one for all failures, one for each delay of releases. */
  #batches(): Report[][] {
    const batches: Report[][] = [];
    let batch: Report[];
    do {
      const [first] = this.#waiting;
      if (first === undefined) {
        break;
      }
      batch = first.isAlone
        ? this.#take((report) => report === first)
        : this.#take((it) => it.kind === first.kind && it.delayMs === first.delayMs && !it.isAlone);
      batches.push(batch);
    } while (batches.length < REQUESTS_MAX);
    return batches;
  }

  /** Sends one request. Returns for how long to wait after it. */
  async #send(batch: readonly Report[]): Promise<number> {
    const kind = (batch[0] as Report).kind;
    const limitMs = answerLimit(batch, this.#transport.timeLimitMs);
    batch.forEach((report) => (report.wasSent = true));
    try {
      const call = jsonTextCall("POST", `/${kind}`, bodyOf(kind, batch), { limitMs });
      const outcomes = outcomesOf((await this.#transport.send(call)).json());
      if (outcomes.length !== batch.length) {
        // Not known to be reported.
        throw new ServerError({ detail: "the answer has another number of outcomes", applied: "unknown" });
      }
      this.confirm(batch, outcomes);
      return 0;
    } catch (error) {
      return this.#failed(kind, batch, error);
    }
  }

  #failed(kind: ReportKind, batch: readonly Report[], error: unknown): number {
    if (!isRefused(error) && !(error instanceof AuthError)) {
      const retryInMs = this.#delays.nextEndless((error as { retryAfterMs?: number }).retryAfterMs);
      this.#hooks.requestFailed({ request: kind, error, retryInMs });
      this.putBack(batch, error);
      return retryInMs;
    }
    this.#hooks.requestFailed({ request: kind, error, retryInMs: undefined });
    if (isRefused(error) && batch.length > 1) {
      // One report that is not accepted must not keep the others from being reported.
      this.putBack(batch, error);
    } else if (isRefused(error) && kind === "ack") {
      this.#waiting.push(...batch.map((report) => refusedResult(report, error)));
    } else {
      this.#hooks.warning(`failed to report ${batch.length} jobs: ${errorText(error)}`);
    }
    return 0;
  }
}

/** Whether the server does not accept the content of a request. */
function isRefused(error: unknown): boolean {
  return error instanceof TidegateError && REFUSED.has(error.status ?? 0);
}

/** An answer that is late must leave time for another request before the first lease of the batch ends. */
function answerLimit(batch: readonly Report[], timeLimitMs: number): number {
  const now = performance.now();
  const left = batch.map((report) => report.expiresAt - now).filter((ms) => ms > 0);
  return Math.min(Math.max(Math.min(...left) / 2, ANSWER_LIMIT_MIN_MS), timeLimitMs);
}

function bodyOf(kind: ReportKind, batch: readonly Report[]): string {
  return kind === "release"
    ? releaseBody(batch.map((report) => report.lease), batch[0]?.delayMs)
    : `{"leases":[${batch.map((report) => report.item).join(",")}]}`;
}

function reportOf(held: HeldLease, end: RunEnd): Report {
  const { id: jobId, lease } = held.job;
  const base = { jobId, lease, expiresAt: held.expiresAt, wasSent: false, isAlone: false, mayTravel: true, delayMs: undefined };
  try {
    switch (end.kind) {
      case "done":
        return { ...base, kind: "ack", item: ackItem({ lease, result: withoutFunctions(end.result) }) };
      case "fail":
        return { ...base, kind: "fail", item: failItem({ lease, ...end, error: shortened(end.error) }) };
      case "release":
        optionalDuration("delay", end.delayMs);
        return { ...base, kind: "release", item: "", delayMs: end.delayMs };
    }
  } catch (error) {
    // The result is no JSON, or a delay is no number: the same would happen after a retry.
    const text = `the end of the handler cannot be reported: ${errorText(error)}`;
    return { ...base, kind: "fail", item: failItem({ lease, error: text, dead: true }) };
  }
}

/** A handler that is an expression may return a function by accident; JSON has none. */
function withoutFunctions(result: unknown): unknown {
  return typeof result === "function" || typeof result === "symbol" ? undefined : result;
}

/** The server keeps 1,024 bytes. */
function shortened(text: string): string {
  return text.slice(0, 1_024);
}

function refusedResult(report: Report, cause: unknown): Report {
  const error = `the work is done, but the result was not accepted: ${errorText(cause)}`;
  const item = failItem({ lease: report.lease, error: shortened(error), dead: true });
  return { ...report, kind: "fail", item, isAlone: true };
}
