/**
 * Reserves jobs as slots become free, and starts their handlers.
 */

import { reserveBody, type QueueChoice, type ReserveAnswer } from "../consume.js";
import { AuthError } from "../errors.js";
import { RepeatDelays } from "../http/repeat.js";
import { jsonTextCall, type Transport } from "../http/transport.js";
import { ReserveText } from "../leased-job.js";
import { type LeaseOutcome } from "../wire/answers.js";
import { fromWire } from "../wire/names.js";
import { durationText } from "../wire/values.js";
import { type HookCalls } from "./hooks.js";
import { Job } from "./job.js";
import { leaseLength } from "./lease-table.js";
import { type Report, type Reports } from "./reports.js";

/** The most jobs of a request. */
const RESERVE_JOBS_MAX = 256;
/** The most requests in flight. */
const CALLS_MAX = 4;
/** An empty answer that comes earlier than the wait is followed by this pause. */
const EMPTY_PAUSE_MS = 50;
/** How long no jobs are reserved while too many ends of jobs wait to be reported. */
const FULL_PAUSE_MS = 50;
/**
 * A request that was sent so short a time ago is probably being answered: a stop waits for the answer, since the server
 * gives jobs back only if it has not sent them yet.
 */
const FRESH_MS = 250;
/** While the queues have more jobs than slots, ends of jobs wait so long for the next reserve. */
const REPORT_DELAY_MS = 5;

export interface ReserveSettings {
  readonly queues: readonly QueueChoice[];
  readonly order: "strict" | "weighted" | undefined;
  readonly waitMs: number;
  readonly leaseMs: number | undefined;
  readonly name: string;
  readonly slots: number;
  readonly prefetch: number;
}

/** What the loop asks of the worker. */
export interface ReserveSink {
  /** How many jobs the worker holds: they run, or wait for a slot. */
  held(): number;
  /** Takes a job. The length of its lease is counted from now on. */
  take(job: Job, lengthMs: number): void;
  /** Starts the handlers of jobs that wait, as long as slots are free. */
  startWaiting(): void;
  /** The server refuses the key of the worker. */
  refused(error: AuthError): void;
}

interface ReserveCall {
  readonly requested: number;
  readonly sentAt: number;
  readonly waitMs: number;
  readonly cutter: AbortController;
  readonly reports: readonly Report[];
}

export class ReserveLoop {
  readonly #transport: Transport;
  readonly #settings: ReserveSettings;
  readonly #sink: ReserveSink;
  readonly #reports: Reports;
  readonly #hooks: HookCalls;
  readonly #fields: string;
  readonly #delays = RepeatDelays.endless(100, 5_000);
  readonly #calls = new Map<ReserveCall, Promise<void>>();
  /** The jobs that the requests in flight may return. */
  #requested = 0;
  /** Whether the last answer had as many jobs as requested: there are probably more. */
  #isBusy = false;
  #isScheduled = false;
  #isStopped = false;
  #pause: NodeJS.Timeout | undefined;

  constructor(transport: Transport, settings: ReserveSettings, sink: ReserveSink, reports: Reports, hooks: HookCalls) {
    this.#transport = transport;
    this.#settings = settings;
    this.#sink = sink;
    this.#reports = reports;
    this.#hooks = hooks;
    const { queues, order, leaseMs, name } = settings;
    const fields = reserveBody(queues, { order, leaseMs, worker: name });
    this.#fields = JSON.stringify(fields).slice(0, -1);
  }

  /** Something has changed: a slot is free, or the end of a job is to be reported. */
  wake(): void {
    if (!this.#isScheduled) {
      this.#isScheduled = true;
      // Handlers that end together are followed by one request.
      setImmediate(() => {
        this.#isScheduled = false;
        this.#step();
      });
    }
  }

  /** Ends the requests in flight. Jobs that arrive all the same are taken; the worker gives them back. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#pause);
    this.#pause = undefined;
    await Promise.all([...this.#calls].map(([call, sending]) => cutOff(call, sending)));
  }

  #step(): void {
    if (!this.#isStopped) {
      this.#sink.startWaiting();
      this.#requestMore();
    }
    const isFollowed = this.#isBusy && this.#calls.size > 0 && !this.#isStopped;
    this.#reports.flush(isFollowed ? REPORT_DELAY_MS : 0);
  }

  /** Sends a request if there is room for jobs. While the queues have more jobs than room, several are in flight. */
  #requestMore(): void {
    if (this.#pause !== undefined) {
      return;
    }
    if (this.#reports.isFull) {
      this.#pauseFor(FULL_PAUSE_MS);
      return;
    }
    const room = this.#settings.slots + this.#settings.prefetch;
    const free = room - this.#sink.held() - this.#requested;
    const mayAdd = this.#isBusy && free >= room / 4 && this.#calls.size < CALLS_MAX;
    if (free <= 0 || !(this.#calls.size === 0 || mayAdd)) {
      return;
    }
    const requested = Math.min(free, RESERVE_JOBS_MAX);
    const reports = this.#reports.takeForReserve();
    // The answer has the outcomes of the reports, so it must come at once. The reserve after it waits.
    const waitMs = reports.length > 0 ? 0 : this.#settings.waitMs;
    const call = { requested, sentAt: performance.now(), waitMs, cutter: new AbortController(), reports };
    this.#requested += requested;
    const sending = this.#send(call).finally(() => {
      this.#requested -= requested;
      this.#calls.delete(call);
      this.wake();
    });
    this.#calls.set(call, sending);
  }

  async #send(call: ReserveCall): Promise<void> {
    const { waitMs, requested, reports, cutter } = call;
    const wait = `"wait":"${durationText("wait", waitMs)}"`;
    const body = `${this.#fields},"max_jobs":${requested},${wait}${settleField(reports)}}`;
    try {
      const more = { waitMs, signal: cutter.signal };
      const reply = await this.#transport.send(jsonTextCall("POST", "/reserve", body, more));
      this.#answered(call, new ReserveText(reply.text(), this.#transport.integers));
    } catch (error) {
      this.#failed(call, error);
    }
  }

  #answered(call: ReserveCall, text: ReserveText): void {
    const answer = text.read<ReserveAnswer>();
    this.#delays.reset();
    this.#confirm(call.reports, answer.settled);
    this.#isBusy = answer.jobs.length >= call.requested;
    answer.jobs.forEach((view, index) => {
      const lengthMs = this.#settings.leaseMs ?? leaseLength(answer.now, view.lease_until);
      this.#sink.take(new Job(view, text, index), lengthMs);
    });
    this.#pauseIfEarly(call, answer.jobs.length);
    if (!this.#isStopped) {
      this.#sink.startWaiting();
    }
  }

  #confirm(reports: readonly Report[], settled: ReserveAnswer["settled"]): void {
    if (reports.length === 0) {
      return;
    }
    const done = reports.filter(isAck);
    const failed = reports.filter((report) => !isAck(report));
    const [ack, fail] = [settled?.ack ?? [], settled?.fail ?? []];
    if (ack.length !== done.length || fail.length !== failed.length) {
      // Not known to be reported: they are sent again, and not with a reserve.
      this.#reports.putBack(reports, undefined, false);
      return;
    }
    // The fields of an outcome need their names changed for hooks only.
    const read = (outcomes: readonly LeaseOutcome[]): readonly LeaseOutcome[] =>
      this.#hooks.wantsReports ? fromWire<LeaseOutcome[]>(outcomes) : outcomes;
    this.#reports.confirm(done, read(ack));
    this.#reports.confirm(failed, read(fail));
  }

  /** A server that stops answers without jobs before the wait is over. */
  #pauseIfEarly(call: ReserveCall, jobs: number): void {
    const tookMs = performance.now() - call.sentAt;
    const isEarly = tookMs < Math.max(call.waitMs / 2, EMPTY_PAUSE_MS);
    if (jobs === 0 && isEarly && call.reports.length === 0) {
      this.#pauseFor(EMPTY_PAUSE_MS);
    }
  }

  #failed(call: ReserveCall, error: unknown): void {
    this.#reports.putBack(call.reports, error);
    if (this.#isStopped) {
      return;
    }
    if (error instanceof AuthError) {
      this.#sink.refused(error);
      return;
    }
    const retryAfterMs = (error as { retryAfterMs?: number }).retryAfterMs;
    const retryInMs = this.#delays.nextEndless(retryAfterMs);
    this.#hooks.requestFailed({ request: "reserve", error, retryInMs });
    this.#pauseFor(retryInMs);
  }

  #pauseFor(ms: number): void {
    if (this.#isStopped) {
      return;
    }
    clearTimeout(this.#pause);
    this.#pause = setTimeout(() => {
      this.#pause = undefined;
      this.wake();
    }, ms);
  }
}

/** Ends a request: at once if it waits for jobs, or else soon. */
async function cutOff(call: ReserveCall, sending: Promise<void>): Promise<void> {
  const age = performance.now() - call.sentAt;
  const timer = setTimeout(() => call.cutter.abort(), Math.max(0, FRESH_MS - age));
  await sending;
  clearTimeout(timer);
}

function isAck(report: Report): boolean {
  return report.kind === "ack";
}

function settleField(reports: readonly Report[]): string {
  if (reports.length === 0) {
    return "";
  }
  const items = (isOfKind: (report: Report) => boolean): string =>
    reports.filter(isOfKind).map((report) => report.item).join(",");
  return `,"settle":{"ack":[${items(isAck)}],"fail":[${items((report) => !isAck(report))}]}`;
}
