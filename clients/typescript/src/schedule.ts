/**
 * Schedules: jobs at fixed times.
 */

import { type Condition, conditionHeaders } from "./condition.js";
import { checkedName } from "./http/paths.js";
import { type Call, jsonCall, type Reply, type Transport } from "./http/transport.js";
import { type RetryOptions } from "./publish/options.js";
import { type ScheduleDetails } from "./wire/answers.js";
import { fromWire, toWire } from "./wire/names.js";
import { type DurationText, type Instant } from "./wire/values.js";

/** The job that a schedule publishes. Durations are texts such as `90s`. */
export interface ScheduleJob {
  /** A value of JSON, up to 16 KiB. */
  readonly payload?: unknown;
  /** The payload as Base64, if it is not JSON. */
  readonly payloadBase64?: string;
  readonly contentType?: string;
  readonly attributes?: Readonly<Record<string, string>>;
  readonly delay?: DurationText;
  readonly retain?: DurationText;
  readonly lease?: DurationText;
  readonly startWithin?: DurationText;
  readonly retry?: RetryOptions;
  readonly maxAttempts?: number;
  readonly priority?: number;
  readonly group?: string;
}

/** A job at each tick: when a cron pattern matches, or `every` so often. */
export interface Schedule {
  /** The queue of the jobs. It cannot be changed. */
  readonly queue: string;
  readonly job: ScheduleJob;
  /** A pattern of five fields, or of six that begin with the seconds. */
  readonly cron?: string;
  /** The time zone of the pattern, such as `Europe/Berlin`. Default: `UTC`. */
  readonly timeZone?: string;
  /** The time between two ticks, instead of `cron`. */
  readonly every?: DurationText;
  /** If the job of an earlier tick is not done. Default: `keep`. */
  readonly overlap?: "keep" | "replace" | "allow";
  /** Which missed ticks are published. Default: `one`. */
  readonly catchUp?: "one" | "none" | "all";
  /** No tick is published later than this. */
  readonly catchUpWindow?: DurationText;
  readonly startsAt?: Instant;
  readonly endsAt?: Instant;
  readonly paused?: boolean;
}

/** A schedule of a namespace, by its name. */
export class ScheduleHandle {
  readonly #transport: Transport;
  readonly #path: string;

  /** @internal */
  constructor(
    transport: Transport,
    /** The name: up to 64 letters, digits, `-` and `_`. */
    readonly name: string,
  ) {
    this.#transport = transport;
    this.#path = `/schedules/${checkedName("schedule", name)}`;
  }

  /** Creates the schedule, or replaces it. The condition `ifMatch` is the revision in quotes. */
  async set(schedule: Schedule, condition: Condition = {}): Promise<ScheduleDetails> {
    const call = jsonCall("PUT", this.#path, toWire(schedule), { headers: conditionHeaders(condition) });
    return fromWire((await this.#send(call)).json());
  }

  /** The schedule, and its next tick. */
  async show(): Promise<ScheduleDetails> {
    return fromWire((await this.#send({ method: "GET", path: this.#path })).json());
  }

  /** Its next ticks. None if it is paused or has ended. */
  async nextRuns(options: { /** 1 to 100. */ readonly count?: number } = {}): Promise<readonly Date[]> {
    const query = options.count === undefined ? "" : `?count=${options.count}`;
    const reply = await this.#send({ method: "GET", path: `${this.#path}/next${query}` });
    return fromWire<{ runs: readonly Date[] }>(reply.json()).runs;
  }

  /** Ends the schedule. Jobs that it has published stay. */
  async delete(condition: Condition = {}): Promise<void> {
    const call: Call = { method: "DELETE", path: this.#path, headers: conditionHeaders(condition) };
    await this.#send(call);
  }

  /** All requests for schedules are safe to repeat. */
  #send(call: Call): Promise<Reply> {
    return this.#transport.sendRepeated(call, "safe");
  }
}
