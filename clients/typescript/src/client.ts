/**
 * The client of a namespace.
 */

import { type ClientOptions, settingsOf } from "./config.js";
import { Consumer, type DoneLease, type FailedLease, type QueueChoice, type ReserveOptions } from "./consume.js";
import { type TidegateError } from "./errors.js";
import { Transport } from "./http/transport.js";
import { Keys } from "./keys.js";
import { type LeasedJob } from "./leased-job.js";
import { listPages, type PageOptions } from "./lists.js";
import { type PublishOptions } from "./publish/options.js";
import { type BatchJob, type BatchOptions, type CallOptions, type JobResult, Publisher } from "./publish/publisher.js";
import { Queue } from "./queue.js";
import { ScheduleHandle } from "./schedule.js";
import { type LeaseOutcome, type PublishedJob, type QueueCounts, type ScheduleDetails } from "./wire/answers.js";

/** @internal The parts of a client that its handles and the worker use. */
export interface ClientCore {
  readonly transport: Transport;
  readonly publisher: Publisher;
}

const cores = new WeakMap<Client, ClientCore>();

/** @internal */
export function coreOf(client: Client): ClientCore {
  return cores.get(client) as ClientCore;
}

/**
 * A client of one namespace. It has no state besides its connections, so one client is enough for a process.
 *
 * Requests are repeated after a broken connection, 408, 502, 503 and 504, if that is safe; see `RepeatLimits`. Every
 * method throws a {@link TidegateError} if the request fails in the end.
 */
export class Client {
  /** The API keys of the namespace. */
  readonly keys: Keys;
  readonly #transport: Transport;
  readonly #publisher: Publisher;
  readonly #consumer: Consumer;

  /**
   * Makes a client. No request is sent.
   *
   * @param options without `url`, `key` or `namespace` the variables `TIDEGATE_URL`, `TIDEGATE_KEY` and
   *   `TIDEGATE_NAMESPACE` are read
   * @throws InvalidRequestError if one of them is missing or not valid
   */
  constructor(options: ClientOptions = {}) {
    this.#transport = new Transport(settingsOf(options));
    this.#publisher = new Publisher(this.#transport);
    this.#consumer = new Consumer(this.#transport);
    this.keys = new Keys(this.#transport);
    cores.set(this, { transport: this.#transport, publisher: this.#publisher });
  }

  /** A queue of the namespace. No request is sent; a queue exists by being used. */
  queue(name: string): Queue {
    return new Queue(coreOf(this), name);
  }

  /** A schedule of the namespace. No request is sent. */
  schedule(name: string): ScheduleHandle {
    return new ScheduleHandle(this.#transport, name);
  }

  /**
   * Publishes a job.
   *
   * Publishes to one queue that meet are sent together, and each gets its own answer. The answer to a repetition of a
   * publish with a key may be `exists` or `replaced` for a job that the first request created.
   *
   * @param payload a value of JSON, in which integers may be `bigint`; or bytes, a `Content` or a `JsonText`. Up to
   *   1 MiB
   */
  publish(queue: string, payload: unknown, options: PublishOptions = {}): Promise<PublishedJob> {
    return this.#publisher.publish(queue, payload, options);
  }

  /**
   * Publishes up to 1,000 jobs in one request, in this order. Returns a job or an error for each. With `atomic` all
   * are stored, or the call throws.
   */
  publishBatch(
    queue: string,
    jobs: readonly BatchJob[],
    options: BatchOptions = {},
  ): Promise<(PublishedJob | TidegateError)[]> {
    return this.#publisher.publishBatch(queue, jobs, options);
  }

  /**
   * Publishes a job and waits for its result. A wait of more than 20 s takes several requests. Needs the scope `read`.
   *
   * @throws ConflictError `job_dead` if the job is dead
   * @throws NotFoundError `job_not_found` if it was cancelled, or its result is not kept any longer
   */
  call(queue: string, payload: unknown, options: CallOptions): Promise<JobResult> {
    return this.#publisher.call(queue, payload, options);
  }

  /** Reserves jobs of up to 16 queues. Use a `Worker`, unless you extend the leases and report the ends yourself. */
  reserve(queues: readonly QueueChoice[], options: ReserveOptions = {}): Promise<LeasedJob[]> {
    return this.#consumer.reserve(queues, options);
  }

  /** Reports jobs that are done, up to 1,000. An ack that is repeated is answered `gone`, which is a success too. */
  ack(leases: readonly (string | DoneLease)[]): Promise<LeaseOutcome[]> {
    return this.#consumer.ack(leases);
  }

  /** Reports attempts that failed, up to 1,000. */
  fail(leases: readonly FailedLease[]): Promise<LeaseOutcome[]> {
    return this.#consumer.fail(leases);
  }

  /** Extends leases, up to 1,000, to this length from now on. By default the length of the job or the policy. */
  touch(leases: readonly string[], options: { readonly leaseMs?: number } = {}): Promise<LeaseOutcome[]> {
    return this.#consumer.touch(leases, options.leaseMs);
  }

  /** Gives jobs back, up to 1,000, which counts as no failure. With `delayMs` they come back later. */
  release(leases: readonly string[], options: { readonly delayMs?: number } = {}): Promise<LeaseOutcome[]> {
    return this.#consumer.release(leases, options.delayMs);
  }

  /** The queues of the namespace. Each page is sorted by name, the list is not. */
  queues(options: PageOptions = {}): AsyncGenerator<QueueCounts, void, undefined> {
    return listPages(this.#transport, "/queues", {}, options);
  }

  /** The schedules of the namespace, by name. */
  schedules(options: PageOptions = {}): AsyncGenerator<ScheduleDetails, void, undefined> {
    return listPages(this.#transport, "/schedules", {}, options);
  }
}
